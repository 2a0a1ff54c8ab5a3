"""A fleet under drill: one supervisor with real children, started, struck and ended from outside.

It is seen as an operator sees it, by its state file; which jobs it runs is asked of the database, not of it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

from smena.errors import SmenaError
from workers.process import lineage
from workers.supervisor.state_file import read_state

BOOT_S: Final = 60.0
_TAIL: Final = 1_500
_LOOK_S: Final = 0.01
_UNSEEN: Final = 20
"""Looks in a row that find nobody."""
_PROBE_S: Final = 5.0
_END_S: Final = 10.0


class FleetFailed(SmenaError):
    """The fleet under drill did not do what it was told."""


@dataclass(frozen=True)
class FleetPlan:
    """How the fleet is made: worker processes, threads of each, roles, and settings (`worker_drain_s` and so on)."""

    processes: int = 2
    threads: int = 8
    roles: tuple[str, ...] = ("worker", "relay", "archivist", "scheduler")
    settings: Mapping[str, object] = field(default_factory=dict)


class Fleet:
    """One supervisor and its children."""

    def __init__(self, name: str, plan: FleetPlan, environ: Mapping[str, str], folder: Path, guard: str | None) -> None:
        self.plan = plan
        self._folder = folder / name
        self._folder.mkdir(parents=True)
        self._state = self._folder / "state"
        self.events = self._folder / "events.jsonl"
        self._errors = self._folder / "stderr"
        self._environ = {**environ, **self._settings()}
        self._command = ["workers.cli", "up", "--roles", ",".join(plan.roles)]
        if guard is not None:
            self._command = ["workers.drills.unguarded", guard, ",".join(plan.roles)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, **changed: str) -> None:
        """Start the supervisor; ``changed`` are further variables of its environment."""
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", *self._command],
                env={**self._environ, **changed},
                cwd=self._folder.parent,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
                preexec_fn=lineage.die_with_parent,
            )

    def wait_ready(self, within_s: float = BOOT_S) -> None:
        """Wait until all its children are ready; raise `FleetFailed` when they are not in time."""
        self._wait(lambda: self.state() == "ready", within_s, "was not ready")

    def state(self) -> str:
        """Return what the supervisor says of itself: booting, ready, draining, or nothing where it is gone."""
        return str(self._told().get("state", ""))

    def is_ready(self) -> bool:
        """Ask its port, as an orchestrator does: everything it needs answers, and it is not draining."""
        address = self._told()["metrics"]
        asked = HTTPConnection(address["host"], address["port"], timeout=_PROBE_S)
        try:
            asked.request("GET", "/ready")
            return asked.getresponse().status == HTTPStatus.OK
        except OSError:
            return False
        finally:
            asked.close()

    @property
    def pid(self) -> int:
        """Return the supervisor's process id."""
        return self._running().pid

    def children(self, role: str = "worker") -> dict[str, int]:
        """Return the role's children: post to process id."""
        roles: dict[str, dict[str, int]] = self._told().get("roles", {})
        return roles.get(role, {})

    def workers(self) -> list[int]:
        """Return the process ids of the worker processes."""
        return list(self.children().values())

    def leaving(self) -> list[int]:
        """Return the process ids of children whose post is another's already."""
        return list(self._told().get("leaving", ()))

    def tell(self, number: signal.Signals) -> None:
        """Send the supervisor a signal."""
        os.kill(self.pid, number)

    def tell_all(self, number: signal.Signals) -> None:
        """Send supervisor and all children a signal at once, as a careless service manager does."""
        for pid in self.members():
            send(pid, number)

    def wait_exit(self, within_s: float) -> int:
        """Wait for the supervisor's end and return its exit code; raise `FleetFailed` when it takes longer."""
        try:
            return self._running().wait(within_s)
        except subprocess.TimeoutExpired:
            raise FleetFailed(self._complaint(f"had not ended after {within_s:g} s")) from None

    @property
    def has_ended(self) -> bool:
        """Say whether the supervisor is gone (or was never started)."""
        return self._process is None or self._process.poll() is not None

    def members(self) -> list[int]:
        """Return every process that carries this fleet's state folder in its environment: all it ever started."""
        mark = f"SMENA_SUPERVISOR_STATE_DIR={self._state}".encode()
        return [pid for pid, environ in _environments() if mark in environ.split(b"\0")]

    def destroy(self) -> None:
        """Kill whatever is left of it, and wait until it is gone: a killed process takes its time to end.

        One look is not enough: a child shows no environment while it is being executed.
        """
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(_END_S)
        ends_at, unseen = time.monotonic() + _END_S, 0
        while unseen < _UNSEEN and time.monotonic() < ends_at:
            left = self.members()
            unseen = 0 if left else unseen + 1
            for pid in left:
                send(pid, signal.SIGKILL)
            time.sleep(_LOOK_S)

    def complaint(self) -> str:
        """Return the end of what it wrote to standard error."""
        return self._errors.read_text(encoding="utf-8", errors="replace")[-_TAIL:].strip()

    def _settings(self) -> dict[str, str]:
        plan = self.plan
        return {
            "SMENA_WORKER_PROCESSES": str(plan.processes),
            "SMENA_WORKER_THREADS": str(plan.threads),
            "SMENA_SUPERVISOR_STATE_DIR": str(self._state),
            "SMENA_SUPERVISOR_METRICS_PORT": "0",
            "SMENA_TELEMETRY_LOG_FILE": str(self.events),
            **{f"SMENA_{name.upper()}": str(value) for name, value in plan.settings.items()},
        }

    def _told(self) -> dict[str, Any]:
        """Return the state file; not one that a killed supervisor of the same folder has left."""
        told = (None if self.has_ended else read_state(self._state)) or {}
        return told if told.get("pid") == self.pid else {}

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise FleetFailed("the fleet was not started")
        return self._process

    def _wait(self, condition: Callable[[], bool], within_s: float, what: str) -> None:
        ends_at = time.monotonic() + within_s
        while not condition():
            if self.has_ended:
                raise FleetFailed(self._complaint(f"ended with {self._running().returncode}"))
            if time.monotonic() > ends_at:
                raise FleetFailed(self._complaint(f"{what} after {within_s:g} s"))
            time.sleep(_LOOK_S)

    def _complaint(self, what: str) -> str:
        said = self.complaint()
        return f"the fleet {what}" + (f":\n{said}" if said else "")


def send(pid: int, number: signal.Signals) -> bool:
    """Send a signal; return whether there was anyone to get it."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def is_stopped(pids: Sequence[int]) -> bool:
    """Say whether SIGSTOP has reached all of them."""
    return all(_state_of(pid) in ("T", "") for pid in pids)


def is_alive(pid: int) -> bool:
    """Say whether the process exists and is no zombie."""
    return _state_of(pid) not in ("", "Z", "X")


def _state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(") ")[2][:1]
    except OSError:
        return ""


def _environments() -> Iterator[tuple[int, bytes]]:
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            yield int(process.name), (process / "environ").read_bytes()
