"""See the demo's fleet from outside, as an operator does: state file, flight recorders, signals."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from workers.process.flightfile import Running, read
from workers.supervisor.state_file import read_state

_STOP_S = 5.0


class Fleet:
    """The processes of one supervisor, found through its state folder."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir

    def is_ready(self) -> bool:
        """Say whether all wanted processes are up."""
        return (read_state(self._state_dir) or {}).get("state") == "ready"

    def workers(self) -> dict[str, int]:
        """Return the worker processes: post number -> process id."""
        roles: dict[str, dict[str, int]] = (read_state(self._state_dir) or {}).get("roles", {})
        return roles.get("worker", {})

    def running(self, pid: int) -> list[Running]:
        """Return the jobs that a worker runs now."""
        return read(self._state_dir / f"{pid}.flight")

    def all_running(self) -> int:
        """Return how many jobs run in all workers."""
        return sum(len(self.running(pid)) for pid in self.workers().values())


class Interference:
    """Kill one worker in the middle of its jobs, then drain another; call `act` again and again.

    A worker that runs at least ``least`` jobs is stopped first, so that what its flight recorder shows
    cannot change between the look and the kill. One that had finished them by then may go on.
    """

    def __init__(self, fleet: Fleet, least: int = 4) -> None:
        self._fleet = fleet
        self._least = least
        self.killed: int | None = None
        self.killed_running = 0
        self.drained: int | None = None
        self.is_done = False
        """Whether both have been replaced."""
        self._gone: dict[str, int] = {}

    def act(self) -> None:
        """Do what can be done now; returns at once if there is nothing."""
        if self.killed is None:
            self._kill_one()
        elif self.drained is None and self._are_replaced():
            self._drain_one()
        elif self.drained is not None:
            self.is_done = self.is_done or self._are_replaced()

    def _kill_one(self) -> None:
        for post, pid in self._fleet.workers().items():
            if len(self._fleet.running(pid)) >= self._least and self._kill_stopped(pid):
                self.killed, self._gone[post] = pid, pid
                return

    def _kill_stopped(self, pid: int) -> bool:
        if not (_signal(pid, signal.SIGSTOP) and _eventually(lambda: _is_stopped(pid))):
            return False
        running = len(self._fleet.running(pid))
        if running < self._least:
            _signal(pid, signal.SIGCONT)
            return False
        self.killed_running = running
        return _signal(pid, signal.SIGKILL)

    def _drain_one(self) -> None:
        """Drain a worker other than the killed one; the killed one's replacement where there is but one worker."""
        for post, pid in sorted(self._fleet.workers().items(), key=lambda worker: worker[0] in self._gone):
            if _signal(pid, signal.SIGTERM):
                self.drained, self._gone[post] = pid, pid
                return

    def _are_replaced(self) -> bool:
        workers = self._fleet.workers()
        return all(workers.get(post, pid) != pid for post, pid in self._gone.items())


def _signal(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def _is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2][:1] == "T"
    except OSError:
        return False


def _eventually(condition: Callable[[], bool]) -> bool:
    ends_at = time.monotonic() + _STOP_S
    while not condition():
        if time.monotonic() > ends_at:
            return False
        time.sleep(0.001)
    return True
