"""The image's build lines and the compose file's services do what they say, as plain processes without an engine.

Rewritten are places only: the servers' addresses, the image's folders, `/run/secrets` and `/tmp`, and the one port that
three containers may share and three processes of one machine may not.
"""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from tests.fixtures import dockerfile
from tests.fixtures.compose_file import ROOT, ComposeService, services
from tests.fixtures.dockerfile import BuiltImage
from tests.fixtures.eventually import eventually
from tests.fixtures.fix_broker import BrokerView
from workers.local.ports import LOOPBACK, keep_ports
from workers.local.services import LocalServices
from workers.process.exits import Exit

pytestmark = pytest.mark.timeout(
    400
)  # the image is installed once: some ten seconds of work, much longer on a busy machine

SERVICES = services()
ROLES = ("worker", "relay", "archivist", "scheduler")
QUEUES = ("sales", "payments", "mail", "receipts")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> BuiltImage:
    """Give what the Dockerfile's lines leave in a clean folder."""
    return dockerfile.build(tmp_path_factory.mktemp("image"))


@pytest.fixture
def secrets(
    tmp_path: Path, services: LocalServices, empty_database_url: str, amqp_url: str, redis_url: str
) -> Iterator[Path]:
    """Give the files of `deploy/secrets.sh`, with the local servers' addresses in them.

    The broker's login is the file's own, since the local one is a known password, which profile production refuses.
    """
    folder = tmp_path / "secrets"
    subprocess.run(["/bin/sh", str(ROOT / "deploy" / "secrets.sh"), str(folder)], check=True)
    wanted = urlsplit((folder / "amqp_url").read_text())
    _, _, place = wanted.netloc.rpartition("@")
    assert place == "rabbitmq:5672"
    broker = urlsplit(amqp_url)
    user, password = f"smena-{folder.parent.name}", str(wanted.password)
    services.rabbitmq.ctl("add_user", user, password)
    services.rabbitmq.ctl("set_permissions", "-p", "/", user, ".*", ".*", ".*")
    here = {
        "amqp_url": urlunsplit(wanted._replace(netloc=f"{user}:{password}@{broker.hostname}:{broker.port}")),
        "database_url": empty_database_url,
        "redis_url": redis_url,
    }
    for name, url in here.items():
        (folder / name).chmod(0o600)
        (folder / name).write_text(url)
    yield folder
    services.rabbitmq.ctl("delete_user", user)


@dataclass
class PlainEngine:
    """Runs services of the file as processes of this machine."""

    image: BuiltImage
    secrets: Path
    folder: Path
    prefix: str
    ports: dict[str, int]
    running: "dict[str, subprocess.Popen[bytes]]" = field(default_factory=dict)

    def run(self, service: ComposeService) -> "subprocess.Popen[bytes]":
        """Start the service's command."""
        with (self.folder / f"{service.name}.log").open("wb") as log:
            process: subprocess.Popen[bytes] = subprocess.Popen(
                [*self.image.entrypoint, *service.command],
                **self._place(service),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self.running[service.name] = process
        return process

    def is_healthy(self, service: ComposeService) -> bool:
        """Run the service's health check."""
        assert self.running[service.name].poll() is None, self.log(service)
        check: subprocess.CompletedProcess[bytes] = subprocess.run(
            service.check, **self._place(service), capture_output=True, timeout=30, check=False
        )
        assert check.returncode in (0, 1), check.stderr  # what an engine knows
        return check.returncode == 0

    def log(self, service: ComposeService) -> str:
        """Return what the service wrote."""
        return (self.folder / f"{service.name}.log").read_text()

    def clear(self) -> None:
        """End what a failed test left: a supervisor's death ends its children."""
        for process in self.running.values():
            process.kill()
            process.wait(10)

    def _place(self, service: ComposeService) -> dict[str, Any]:
        told = {
            name: re.sub(r"^/run/secrets\b", str(self.secrets), value) for name, value in service.environment.items()
        }
        rewritten = {
            "SMENA_SUPERVISOR_METRICS_HOST": LOOPBACK,
            "SMENA_SUPERVISOR_METRICS_PORT": str(self.ports[service.name]),
            "SMENA_AMQP_PREFIX": self.prefix,
            "TMPDIR": str(self.folder),
        }
        return {"cwd": self.image.workdir, "env": {**self.image.environ, **told, **rewritten}}


@pytest.fixture
def engine(image: BuiltImage, secrets: Path, tmp_path: Path, broker: BrokerView) -> Iterator[PlainEngine]:
    """Give an engine and leave nothing running."""
    broker.knows(*QUEUES)
    ports = keep_ports(tmp_path / "ports.json", ("migrate", *ROLES))
    engine = PlainEngine(image, secrets, tmp_path, broker.prefix, ports)
    yield engine
    engine.clear()


def test_the_image_holds_the_command_and_the_actors_and_runs_as_nobody(image: BuiltImage) -> None:
    command = [*image.entrypoint, "db", "history"]
    environ = {**image.environ, "SMENA_MIGRATIONS": SERVICES["migrate"].environment["SMENA_MIGRATIONS"]}
    shown = subprocess.run(command, cwd=image.workdir, env=environ, capture_output=True, text=True, check=True).stdout
    where = "import smena, workers, actors.mail; print(smena.__file__, workers.__file__, actors.mail.__file__)"
    python = subprocess.run(
        ["python", "-c", where], cwd=image.workdir, env=image.environ, capture_output=True, text=True, check=True
    )
    checked = subprocess.run(
        [*image.entrypoint, "check", "--offline"],
        cwd=image.workdir,
        env={
            **image.environ,
            "SMENA_BOOKS": SERVICES["worker"].environment["SMENA_BOOKS"],
            "SMENA_AMQP_URL": "amqp://somebody:made@127.0.0.1/",
            "SMENA_DATABASE_URL": "postgresql://somebody:made@127.0.0.1/smena",
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout
    assert {line.split()[0] for line in shown.splitlines()} >= {"smena", "actors/migrations"}
    assert all(place.startswith(str(image.root)) for place in python.stdout.split())
    assert int(image.user.partition(":")[0]) > 0
    assert image.stop_signal == "SIGTERM"


def test_the_roles_become_healthy_and_stop_by_the_files_signal_within_its_grace(
    engine: PlainEngine, empty_database_url: str
) -> None:
    migrate = SERVICES["migrate"]
    assert engine.run(migrate).wait(60) == 0, engine.log(migrate)
    del engine.running["migrate"]
    with psycopg.connect(empty_database_url) as database:
        [found] = database.execute(
            "SELECT to_regclass('smena.outbox') IS NOT NULL AND to_regclass('shop.sales') IS NOT NULL"
        )
        assert found == (True,)

    for name in ROLES:
        engine.run(SERVICES[name])
    for name in ROLES:
        service = SERVICES[name]
        eventually(lambda service=service: engine.is_healthy(service), service.start_period_s, pause_s=0.5, errors=())  # type: ignore[misc]

    for name in ROLES:
        engine.running[name].send_signal(SERVICES[name].stop_signal)
    for name in ROLES:
        service = SERVICES[name]
        assert engine.running[name].wait(service.grace_s) == Exit.DRAINED, engine.log(service)
        assert '"event":"child.killed"' not in engine.log(service).replace(" ", "")
