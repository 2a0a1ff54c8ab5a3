"""`smena health` says what the supervisor's port says, in a container's exit codes."""

from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from smena.clock import SYSTEM, Deadline
from smena.settings.groups import Supervisor
from tests.fixtures.eventually import PATIENCE_S
from workers.cli.health import address, health
from workers.local.ports import LOOPBACK
from workers.supervisor.fleet_view import FleetView
from workers.supervisor.port import Board, Port


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


def test_a_port_that_changes_cannot_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMENA_SUPERVISOR_METRICS_PORT", "0")
    answer = ask()
    assert answer.exit_code == 1
    assert "SMENA_SUPERVISOR_METRICS_PORT" in answer.output


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
    assert address(Supervisor(metrics_host=bound)) == (asked, 9191)
