"""Tie processes to their parents on Linux: who dies with whom, who inherits whom, who belongs to a session.

`prctl` has no face in the standard library, so it is called through the C library. Off Linux these calls do nothing:
the pipe's end then is the only sign that the supervisor is gone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path

from smena.clock import Clock, Deadline

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_HANDED_OVER_S = 10.0
_MARK = "_SMENA_CHILD_PID"
_PARENT_FIELD, _SESSION_FIELD = 1, 3
"""Places in `/proc/PID/stat` after the command's closing bracket (`man 5 proc`)."""


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Ask the kernel for this signal when the parent dies; 0 takes it back.

    The kernel counts the parent *thread*, and forgets nothing when a process is handed to another parent, so call it
    after the last change of parent, then check that the parent is still there.
    """
    _prctl(_PR_SET_PDEATHSIG, int(number))


def join_supervisor(supervisor_pid: int, clock: Clock) -> bool:
    """Wait until the supervisor is this process's parent and die with it from then on; return whether it worked.

    A worker has another parent for the moment until the process between it and its nursery has ended.
    """
    first = os.getppid()
    deadline = Deadline.within(_HANDED_OVER_S, clock)
    while os.getppid() == first != supervisor_pid and not deadline.passed():
        time.sleep(0.001)
    if os.getppid() == supervisor_pid:
        die_with_parent()
    return os.getppid() == supervisor_pid


def leave_terminal() -> None:
    """Become the leader of a session of one's own, unless that is so already."""
    with contextlib.suppress(PermissionError):
        os.setsid()


def hear_signals() -> None:
    """Take off the block that a program inherits from its supervisor, which reads its own signals from a descriptor."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def inherit_orphans() -> None:
    """Become the parent of every descendant whose own parent dies (a subreaper)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def mark_descendants(leader_pid: int) -> None:
    """Let all programs that this process will start carry its pid in their environment, wherever they go.

    A program that leaves the session is still found by `end_session`, unless it was started with an environment made
    from Python's own copy, which does not have the mark.
    """
    os.putenv(_MARK, str(leader_pid))


def end_session(leader_pid: int) -> int:
    """Kill all others in the session of that leader, those with its mark and what these started; return how many.

    Call it while the leader's process id cannot be taken by another: it lives, or was not yet reaped.
    """
    found = [pid for pid in _session(leader_pid) if pid not in (leader_pid, os.getpid())]
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return len(found)


def kill_session(leader_pid: int) -> None:
    """Kill the leader and all in its session; the same condition holds."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(leader_pid, signal.SIGKILL)
    end_session(leader_pid)


def _session(leader_pid: int) -> list[int]:
    """Return all in the leader's session, all with its mark, and whatever these have started."""
    mark = f"{_MARK}={leader_pid}".encode()
    started: dict[int, list[int]] = {}
    members: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError, ValueError):  # it ended, or is somebody else's
            pid = int(process.name)
            fields = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
            started.setdefault(int(fields[_PARENT_FIELD]), []).append(pid)
            if int(fields[_SESSION_FIELD]) == leader_pid or mark in (process / "environ").read_bytes().split(b"\0"):
                members.append(pid)
    for member in members:  # it grows on the way
        members += [pid for pid in started.get(member, ()) if pid not in members]
    return members


def _prctl(option: int, value: int) -> None:
    if not sys.platform.startswith("linux"):
        return
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
