"""`smena worker|relay|archivist|up`: which roles, with which settings."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from pydantic import BaseModel

from smena.settings import Settings, app_settings, load
from workers.cli import fleet
from workers.process.exits import Exit
from workers.supervisor.post import Role
from workers.wiring.supervisor import Ending

Started = list[tuple[Sequence[Role], Settings, Mapping[str, Any]]]


class Mails(BaseModel):
    """What an author reads for himself."""

    mails: int


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """Give what would have been started, instead of starting it."""
    seen: Started = []

    def note(roles: Sequence[Role], settings: Settings, overrides: Mapping[str, Any]) -> Ending:
        seen.append((roles, settings, overrides))
        return Ending(Exit.DRAIN_OVERRAN)

    monkeypatch.setattr(fleet, "run_supervisor", note)
    monkeypatch.delenv("SMENA_DATABASE_URL", raising=False)
    monkeypatch.setenv("SMENA_TOML", "")
    return seen


def test_options_stand_for_settings_and_reach_the_children(started: Started) -> None:
    command = ["--queues", "sales,mail", "--processes", "3", "--threads", "4", "--books", "shop.sales"]
    result = CliRunner().invoke(fleet.worker, [*command, "--metrics-port", "0"])

    [(roles, settings, overrides)] = started
    assert result.exit_code == Exit.DRAIN_OVERRAN
    assert [(role.name, role.module, role.count, role.forked) for role in roles] == [
        ("worker", "workers.wiring.worker", 3, True)
    ]
    assert (settings.worker.queues, settings.worker.threads) == (("sales", "mail"), 4)
    assert overrides == {
        "worker.queues": "sales,mail",
        "worker.processes": 3,
        "worker.threads": 4,
        "books": "shop.sales",
        "supervisor.metrics_port": 0,
    }


@pytest.mark.parametrize(
    "command", [fleet.up, fleet.worker, fleet.relay, fleet.archivist, fleet.scheduler], ids=lambda command: command.name
)
def test_a_settings_file_that_is_named_is_that_of_the_children_too(
    started: Started, command: click.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.toml").write_text("[worker]\nthreads = 5\n[app]\nmails = 7\n")

    CliRunner().invoke(command, ["--config", "shop.toml"])

    [(_, settings, overrides)] = started
    monkeypatch.chdir("/")
    assert settings.worker.threads == 5
    assert (load(overrides).worker.threads, app_settings(Mails).mails) == (5, 7)


def test_up_runs_what_can_run(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    CliRunner().invoke(fleet.up)
    monkeypatch.setenv("SMENA_DATABASE_URL", "postgresql://somewhere/shop")
    CliRunner().invoke(fleet.up)
    CliRunner().invoke(fleet.up, ["--roles", "relay, worker"])

    names = [[role.name for role in roles] for roles, _, _ in started]
    assert names == [["worker"], ["worker", "relay", "archivist", "scheduler"], ["relay", "worker"]]


@pytest.mark.parametrize("command", [["--roles", "baker"], ["--processes", "0"]])
def test_what_cannot_be_is_said_in_a_sentence(started: Started, command: list[str]) -> None:
    result = CliRunner().invoke(fleet.up, command)

    assert result.exit_code == Exit.MISCONFIGURED
    assert result.stderr.startswith("smena: The process cannot run as it is configured")
    assert started == []


def test_a_refusal_of_a_child_is_said_in_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object) -> Ending:
        return Ending(Exit.MISCONFIGURED, "no such book: shop.sails")

    monkeypatch.setattr(fleet, "run_supervisor", refuse)
    result = CliRunner().invoke(fleet.relay)

    assert result.exit_code == Exit.MISCONFIGURED
    assert result.stderr == "smena: no such book: shop.sails\n"
