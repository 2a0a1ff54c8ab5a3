"""`smena health` says what the supervisor's port says, in a container's exit codes."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from smena.clock import SYSTEM, Deadline
from smena.settings import load
from tests.fixtures.eventually import PATIENCE_S
from workers.cli.health import address, health
from workers.local.ports import LOOPBACK
from workers.supervisor.fleet_view import FleetView
from workers.supervisor.port import Board, Port
from workers.supervisor.state_file import FILE
from workers.supervisor.whereabouts import FOLDER_PREFIX


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> Iterator[Board]:
    """Give what a served port answers from; the settings name that port."""
    board = Board(SYSTEM)
    port = Port(LOOPBACK, 0, board.answer)
    port.start()
    monkeypatch.setenv("SMENA_SUPERVISOR_METRICS_PORT", str(port.number))
    yield board
    assert port.stop(Deadline.within(PATIENCE_S, SYSTEM))


def ask(*arguments: str) -> Result:
    return CliRunner().invoke(health, arguments)


def test_a_ready_fleet_is_healthy(board: Board) -> None:
    board.publish(FleetView(state="ready"))
    assert (ask().exit_code, ask("live").exit_code, ask().output) == (0, 0, "ok\n")


def test_a_fleet_that_is_not_ready_is_unhealthy_and_says_why(board: Board) -> None:
    board.publish(FleetView(state="ready", missing=("worker-0: cannot reach broker",)))
    answer = ask()
    assert (answer.exit_code, answer.output) == (1, "worker-0: cannot reach broker\n")
    assert ask("live").exit_code == 0


def test_without_a_supervisor_it_is_unhealthy_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMENA_SUPERVISOR_METRICS_PORT", "1")
    answer = ask()
    assert (answer.exit_code, answer.output.count("\n")) == (1, 1)
    assert "no supervisor answers" in answer.output


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the folder in which supervisors make their own ones; nobody chose a port or a folder."""
    monkeypatch.delenv("SMENA_SUPERVISOR_METRICS_PORT")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def write_state(temporary: Path, name: str, **state: object) -> None:
    folder = temporary / f"{FOLDER_PREFIX}{name}"
    folder.mkdir()
    (folder / FILE).write_text(json.dumps({"pid": os.getpid(), "cwd": str(Path.cwd()), **state}))


def metrics() -> dict[str, object]:
    return {"host": "0.0.0.0", "port": int(os.environ["SMENA_SUPERVISOR_METRICS_PORT"])}  # noqa: S104  (asked)


def test_a_fleet_that_moved_to_a_free_port_is_asked_there(board: Board, request: pytest.FixtureRequest) -> None:
    board.publish(FleetView(state="ready"))
    served, nobody = metrics(), {"host": LOOPBACK, "port": 1}
    temporary = request.getfixturevalue("temporary")
    write_state(temporary, "ours", metrics=served)
    write_state(temporary, "elsewhere", metrics=nobody, cwd="/srv/another")
    write_state(temporary, "dead", metrics=nobody, pid=2**22 + 1)
    assert (ask().exit_code, ask().output) == (0, "ok\n")


def test_the_fleet_of_another_folder_does_not_answer_for_this_one(
    board: Board, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    board.publish(FleetView(state="ready"))
    served = metrics()
    temporary = request.getfixturevalue("temporary")
    write_state(temporary, "elsewhere", metrics=served, cwd="/srv/another")
    assert (ask().exit_code, f"no fleet of {Path.cwd()} runs" in ask().output) == (1, True)
    monkeypatch.setenv("SMENA_SUPERVISOR_STATE_DIR", str(temporary / "nobody"))
    monkeypatch.setenv("SMENA_SUPERVISOR_METRICS_PORT", str(served["port"]))
    assert (ask().exit_code, f"no fleet of {temporary / 'nobody'} runs" in ask().output) == (1, True)
    monkeypatch.setenv("SMENA_SUPERVISOR_STATE_DIR", str(temporary / f"{FOLDER_PREFIX}elsewhere"))
    assert ask().exit_code == 0


def test_of_several_fleets_in_one_folder_one_has_to_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    write_state(tmp_path, "worker", metrics={"host": LOOPBACK, "port": 1})
    write_state(tmp_path, "relay", metrics={"host": LOOPBACK, "port": 2})
    answer = ask()
    assert (answer.exit_code, "set SMENA_SUPERVISOR_METRICS_PORT to one of" in answer.output) == (1, True)


@pytest.mark.parametrize(
    ("bound", "asked"),
    [
        ("0.0.0.0", LOOPBACK),  # noqa: S104  (asked, not bound)
        ("::", "::1"),
        ("0:0:0:0:0:0:0:0", "::1"),
        ("fleet", "fleet"),
        ("10.1.2.3", "10.1.2.3"),
    ],
)
def test_a_port_on_all_addresses_is_asked_on_loopback(bound: str, asked: str) -> None:
    env = {"SMENA_SUPERVISOR_METRICS_HOST": bound, "SMENA_SUPERVISOR_METRICS_PORT": "9191"}
    assert address(load(env=env)) == (asked, 9191)
