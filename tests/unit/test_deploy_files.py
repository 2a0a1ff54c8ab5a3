"""What is shipped for deploying agrees with the settings, keeps no password, and gives a drain its time."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from smena.settings import Settings
from smena.settings.environment import read
from smena.settings.safety import KNOWN_PASSWORDS
from smena.telemetry.metric import METRICS
from tests.fixtures import compose_file, dockerfile
from tests.fixtures.compose_file import ROOT, ComposeService

WHOLE = compose_file.load()
SERVICES = compose_file.services()
OURS = [one for one in SERVICES.values() if one.is_ours]
ROLES = [one for one in OURS if one.name != "migrate"]
UNIT = (ROOT / "deploy" / "smena.service").read_text(encoding="utf-8")
ALERTS = yaml.safe_load((ROOT / "deploy" / "alerts.yml").read_text(encoding="utf-8"))
DEFAULTS = Settings()


def named(service: ComposeService) -> str:
    return service.name


@pytest.mark.parametrize("service", SERVICES.values(), ids=named)
def test_every_service_is_bounded(service: ComposeService) -> None:
    limits = service.fields["deploy"]["resources"]["limits"]
    assert set(limits) == {"cpus", "memory", "pids"}
    assert service.fields["restart"] == ("no" if service.name == "migrate" else "unless-stopped")
    assert service.fields["logging"]["options"]["max-size"]
    assert "ports" not in service.fields


@pytest.mark.parametrize("service", SERVICES.values(), ids=named)
def test_every_service_that_stays_has_a_health_check(service: ComposeService) -> None:
    assert bool(service.check) == (service.name != "migrate")


@pytest.mark.parametrize("service", OURS, ids=named)
def test_our_containers_write_nothing_and_may_do_nothing(service: ComposeService) -> None:
    fields = service.fields
    assert (fields["read_only"], fields["init"], fields["cap_drop"]) == (True, True, ["ALL"])
    assert fields["security_opt"] == ["no-new-privileges:true"]
    assert [place.partition(":")[0] for place in fields["tmpfs"]] == ["/tmp"]


@pytest.mark.parametrize("service", OURS, ids=named)
def test_every_variable_is_a_setting_and_every_address_a_secret(service: ComposeService) -> None:
    direct, _, findings = read({name: value for name, value in service.environment.items() if "_FILE" not in name})
    assert not findings
    assert direct.found["profile"].value == "production"
    files = {name: value for name, value in service.environment.items() if name.endswith("_FILE")}
    assert set(files.values()) == {f"/run/secrets/{secret}" for secret in service.secrets}
    assert set(files) == {"SMENA_AMQP_URL_FILE", "SMENA_DATABASE_URL_FILE", "SMENA_REDIS_URL_FILE"}


@pytest.mark.parametrize("service", ROLES, ids=named)
def test_a_stop_lasts_longer_than_the_drain_and_the_kill(service: ComposeService) -> None:
    drain_s = float(service.environment["SMENA_WORKER_DRAIN_S"])
    kill_grace_s = float(service.environment["SMENA_SUPERVISOR_KILL_GRACE_S"])
    assert (drain_s, kill_grace_s) == (DEFAULTS.worker.drain_s, DEFAULTS.supervisor.kill_grace_s)
    assert service.grace_s >= drain_s + kill_grace_s + 3


@pytest.mark.parametrize("service", ROLES, ids=named)
def test_roles_start_after_the_migrations_and_the_servers(service: ComposeService) -> None:
    waits = {name: one["condition"] for name, one in service.fields["depends_on"].items()}
    assert waits.pop("migrate") == "service_completed_successfully"
    assert waits == dict.fromkeys(("rabbitmq", "postgres", "valkey"), "service_healthy")


def test_no_file_holds_a_password() -> None:
    for file in (compose_file.FILE, dockerfile.FILE, *sorted((ROOT / "deploy").glob("*.*"))):
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"://[^\s/:@]*:[^%\s/@$]+@", text), file
        found = re.findall(r"(?i)pass(?:word|wd)?\s*[:=]\s*[\"']?([\w-]+)", text)
        assert not KNOWN_PASSWORDS.intersection(found), file


def test_secrets_are_random_readable_by_containers_and_closed_to_others(tmp_path: Path) -> None:
    made = [_secrets(tmp_path / name) for name in ("one", "two")]
    assert set(made[0]) == {Path(secret["file"]).name for secret in WHOLE["secrets"].values()}
    assert not set(made[0].values()) & set(made[1].values())
    passwords = {re.findall(r"[A-Za-z0-9]{32}", text)[0] for text in made[0].values()}
    assert len(passwords) == 3
    assert (tmp_path / "one").stat().st_mode & 0o777 == 0o700
    assert all(file.stat().st_mode & 0o777 == 0o444 for file in (tmp_path / "one").iterdir())


def test_secrets_are_never_made_over_others(tmp_path: Path) -> None:
    before = _secrets(tmp_path / "one")
    again = subprocess.run(_command(tmp_path / "one"), capture_output=True, text=True, check=False)
    assert (again.returncode, "already" in again.stderr) == (1, True)
    assert {file.name: file.read_text() for file in (tmp_path / "one").iterdir()} == before


def test_a_checkouts_secrets_reach_neither_the_repository_nor_the_image() -> None:
    assert "/deploy/secrets/" in (ROOT / ".gitignore").read_text().splitlines()
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in ignored
    assert "!deploy" not in ignored
    copied = {word for kind, rest in dockerfile.instructions() if kind == "COPY" for word in rest.split()[:-1]}
    assert {word.rstrip("/") for word in copied if not word.startswith(("/", "--"))} == {
        line[1:] for line in ignored if line.startswith("!")
    }


def test_the_brokers_limit_and_timeout_are_those_of_its_container_and_of_the_settings() -> None:
    pairs = (
        line.split(" = ") for line in (ROOT / "deploy" / "rabbitmq.conf").read_text().splitlines() if " = " in line
    )
    conf = dict(pair for pair in pairs if not pair[0].startswith("#"))
    assert int(conf["consumer_timeout"]) == DEFAULTS.amqp.consumer_timeout_s * 1000
    assert SERVICES["rabbitmq"].fields["deploy"]["resources"]["limits"]["memory"] == "1g"
    assert conf["vm_memory_high_watermark.absolute"] == f"{int(1024 * 0.6)}MiB"


def test_the_broker_sends_again_what_a_delay_level_could_not_pass_on() -> None:
    mounted = SERVICES["rabbitmq"].fields["configs"]
    assert {"source": "rabbitmq_advanced", "target": "/etc/rabbitmq/advanced.config"} in mounted
    advanced = (ROOT / "deploy" / "advanced.config").read_text()
    assert "[{rabbit, [{dead_letter_worker_publisher_confirm_timeout, 10000}]}]." in advanced


def test_what_development_adds_is_named_so_and_open_to_this_machine_only() -> None:
    added: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "development.yml").read_text())["services"]
    assert set(added) <= set(SERVICES)
    assert all(added[one.name]["environment"] == {"SMENA_PROFILE": "development"} for one in OURS)
    ports = [port for one in added.values() for port in one.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_systemd_lets_the_supervisor_drain_its_children() -> None:
    unit = dict(re.findall(r"^(\w+)=(.+)$", UNIT, re.MULTILINE))
    assert (unit["KillMode"], unit["KillSignal"]) == ("mixed", "SIGTERM")
    assert float(unit["TimeoutStopSec"]) >= DEFAULTS.worker.drain_s + DEFAULTS.supervisor.kill_grace_s + 3
    assert unit["RestartPreventExitStatus"] == "2"


def _secrets(folder: Path) -> dict[str, str]:
    subprocess.run(_command(folder), check=True, capture_output=True)
    return {file.name: file.read_text() for file in folder.iterdir()}


def _command(folder: Path) -> list[str]:
    return ["/bin/sh", str(ROOT / "deploy" / "secrets.sh"), str(folder)]


def test_alerts_ask_for_metrics_that_are_there_and_name_a_page_that_is() -> None:
    rules = [rule for group in ALERTS["groups"] for rule in group["rules"]]
    assert rules
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        asked = [name.removesuffix("_count") for name in re.findall(r"smena_\w+", rule["expr"])]
        assert asked
        assert set(asked) <= set(METRICS)
        labels = re.findall(r"by \((\w+)\)|\{(\w+)", rule["expr"])
        assert {name for pair in labels for name in pair if name} <= set(METRICS[asked[0]].labels)
        assert (ROOT / "docs" / "runbooks" / rule["annotations"]["runbook"]).is_file()
