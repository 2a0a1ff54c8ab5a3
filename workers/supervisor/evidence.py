"""Gather what a child leaves behind when it ends: how it ended, what it ran, which thread was at fault.

Two cases. The fault file names a thread: the job that ran there is to blame alone. Nothing names one (SIGKILL, out of
memory): all that ran are suspects, and so may be what had just ended. The files are removed once read; a dead child
leaves nothing on disk.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from workers.process import faultfile, flightfile, lastlines
from workers.process.exits import Exit, signal_name
from workers.process.faultfile import Fault
from workers.process.flightfile import Running
from workers.process.orders import KINDS, Orders
from workers.supervisor.just_ended import just_ended

_PID = re.compile(r"[1-9][0-9]*")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended, as the kernel tells it. One of ``code`` and ``signal`` is set, or neither (never seen)."""

    pid: int
    code: int | None = None
    signal: int | None = None
    peak_kib: int = 0

    @classmethod
    def reap(cls, pid: int) -> Ended:
        """Take the ended child ``pid`` off the process table."""
        _, status, usage = os.wait4(pid, 0)
        if os.WIFSIGNALED(status):
            return cls(pid, None, os.WTERMSIG(status), usage.ru_maxrss)
        return cls(pid, os.WEXITSTATUS(status), None, usage.ru_maxrss)

    @property
    def how(self) -> str:
        """Return a short word for logs and metrics: a signal's name, or the exit's."""
        if self.signal is not None:
            return signal_name(self.signal)
        with contextlib.suppress(ValueError):
            return Exit(self.code).name.lower() if self.code is not None else "never_seen"
        return f"exit_{self.code}"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was left: jobs that ran, the fault that names one of them, and the last lines of the log.

    ``ended`` are jobs that had ended a moment before it died, or broke: ``is_broken`` says whether the child had lost
    what it settles by, so that no ack left it any more.
    """

    running: tuple[Running, ...] = ()
    fault: Fault | None = None
    lines: str = ""
    ended: tuple[Running, ...] = ()
    is_broken: bool = False

    @property
    def blamed(self) -> tuple[Running, ...]:
        """Return the job whose thread the fault names; empty when nothing names one."""
        if self.fault is None or not self.fault.thread_ident:
            return ()
        return tuple(job for job in self.running if job.thread_ident == self.fault.thread_ident)


def collect(orders: Orders, pid: int) -> Evidence:
    """Read a dead child's files and remove them."""
    flight = orders.file(pid, "flight")
    running, broken_at = flightfile.read(flight), flightfile.read_break(flight)
    ended = just_ended(flightfile.read_begun(flight), broken_at, time.time())
    evidence = Evidence(
        tuple(running),
        faultfile.read(orders.file(pid, "fault")),
        lastlines.read(orders.file(pid, "lines")),
        tuple(job for job in ended if job.key not in {one.key for one in running}),
        broken_at > 0,
    )
    for kind in KINDS:
        orders.file(pid, kind).unlink(missing_ok=True)
    return evidence


def sweep(state_dir: Path) -> int:
    """Remove files of processes that no longer live, left by a supervisor that was killed; return how many.

    The folder may be one that an operator chose, so what is not named or made like a child's file stays.
    """
    named = [path for kind in KINDS for path in state_dir.glob(f"*.{kind}") if _PID.fullmatch(path.stem)]
    stale = [path for path in named if _is_plain_file(path) and not Path("/proc", path.stem).exists()]
    for path in stale:
        path.unlink(missing_ok=True)
    return len(stale)


def _is_plain_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
