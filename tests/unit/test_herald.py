"""What the service manager is told."""

import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from smena.clock import MovedClock
from smena.settings.service_manager import ServiceManager, service_manager
from workers.supervisor.fleet_view import FleetView
from workers.supervisor.herald import Herald


class Manager:
    """A service manager's end of the notify socket."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address)
        self._socket.settimeout(0.0)

    def told(self) -> list[str]:
        lines = []
        while True:
            try:
                lines += self._socket.recv(4096).decode().splitlines()
            except BlockingIOError:
                return [line for line in lines if not line.startswith("MONOTONIC_USEC=")]

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    """Give a service manager that listens."""
    listening = Manager(str(tmp_path / "notify"))
    yield listening
    listening.close()


def test_the_manager_hears_of_each_phase_once(manager: Manager, tmp_path: Path) -> None:
    herald = Herald(ServiceManager(str(tmp_path / "notify")), MovedClock(datetime(2026, 1, 1, tzinfo=UTC)))
    pids = {"worker": {0: 12}}
    told = []
    for view in (
        FleetView(missing=("worker-0: starting",)),
        FleetView("ready", pids),
        FleetView("ready", pids),
        FleetView("ready", pids, reloading=True),
        FleetView("ready", pids),
        FleetView("ready", pids, paused=True),
        FleetView("draining", pids),
    ):
        herald.tell(view)
        told.append(manager.told())
    herald.close()

    assert told == [
        ["STATUS=booting, 0 children; worker-0: starting"],
        ["READY=1", "STATUS=ready, 1 children"],
        [],
        ["RELOADING=1"],
        ["READY=1"],
        ["STATUS=ready, 1 children; paused"],
        ["STOPPING=1", "STATUS=draining, 1 children"],
    ]


def test_p56_the_watchdog_is_fed_only_while_every_loop_moves(manager: Manager, tmp_path: Path) -> None:
    clock = MovedClock(datetime(2026, 1, 1, tzinfo=UTC))
    herald = Herald(ServiceManager(str(tmp_path / "notify"), watchdog_s=10), clock)
    fed = []
    for still in ((), (), ("worker-0 (pid 12): link stands still for 20 s",), ()):
        herald.tell(FleetView(standing_still=still))
        fed.append("WATCHDOG=1" in manager.told())
        herald.tell(FleetView(standing_still=still))
        assert "WATCHDOG=1" not in manager.told()
        clock.advance(5)
    herald.close()

    assert fed == [True, True, False, True]


def test_a_manager_that_is_gone_keeps_nobody_from_working(tmp_path: Path) -> None:
    herald = Herald(ServiceManager(str(tmp_path / "nobody")), MovedClock(datetime(2026, 1, 1, tzinfo=UTC)))
    herald.tell(FleetView("ready"))
    herald.close()


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, ServiceManager()),
        ({"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "20000000"}, ServiceManager("@x", 20.0)),
        ({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "2000000", "WATCHDOG_PID": "7"}, ServiceManager("/x", 2.0)),
        ({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "2000000", "WATCHDOG_PID": "8"}, ServiceManager("/x", 0.0)),
        ({"NOTIFY_SOCKET": "x", "WATCHDOG_USEC": "much"}, ServiceManager()),
    ],
)
def test_what_the_environment_says_is_read(env: dict[str, str], expected: ServiceManager) -> None:
    assert service_manager(env, pid=7) == expected
