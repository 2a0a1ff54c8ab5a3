"""Lead a tree of processes that can be ended as one, whatever its members did to leave it.

A step in the process pool may start programs, and those may start others, leave the session or clean their
environment. The leader is the heir of its orphans, so that while it lives they all descend from it; session and mark
find what slipped away before. Off Linux only the leader is ended.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from workers.process import lineage
from workers.process.exits import signal_name

_MARK: Final = "_SMENA_STEP_PID"
_PARENT, _SESSION = 1, 3
"""Places in `/proc/PID/stat` after the command's closing bracket (`man 5 proc`); the state is at 0."""
_FIRST_TO_GO: Final = "500"
_ROUNDS: Final = 10
"""What is found in one look may have started more before it was killed; nobody forks for ever."""


def lead() -> None:
    """Become the leader of a tree.

    The mark stands beside that of the child it belongs to, so that what is started here is found from both.
    """
    lineage.leave_terminal()
    lineage.inherit_orphans()
    os.putenv(_MARK, str(os.getpid()))


def end(leader_pid: int) -> int:
    """Kill a leader and all it has started; return how many others were found.

    The leader is stopped first: it starts nothing more, and its orphans stay its own while they are looked for. Call
    it while the leader's process id cannot be taken by another: it lives, or was not yet reaped.
    """
    _send(leader_pid, signal.SIGSTOP)
    ended = end_followers(leader_pid)
    _send(leader_pid, signal.SIGKILL)
    return ended


def end_followers(leader_pid: int) -> int:
    """Kill all that a leader has started, but not itself; return how many were found."""
    ended: set[int] = set()
    for _ in range(_ROUNDS):
        found = _members(leader_pid) - ended
        for pid in found:
            _send(pid, signal.SIGKILL)
        ended |= found
        if not found:
            break
    return len(ended)


def hear_nothing(numbers: Iterable[int]) -> None:
    """Do nothing on these signals: they are the business of the child that this process belongs to."""
    for number in numbers:
        signal.signal(number, _left_to_the_child)


def limit_memory(most_bytes: int) -> None:
    """Let this process allocate no more than that: then `MemoryError`, and no bad luck for its neighbours.

    `RLIMIT_DATA`, not `RLIMIT_AS`: the latter counts what is only reserved (tried: a limit of 512 MiB failed at 49).
    """
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = most_bytes if hard == resource.RLIM_INFINITY else min(most_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def be_first_to_go() -> None:
    """Let the machine, when it is out of memory, take this process before the worker it serves."""
    with contextlib.suppress(OSError):  # not Linux, or not allowed: then the limits above must do
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO, encoding="ascii")


def ending_of(status: int) -> str:
    """Say in a word how a process ended, from its wait status: ``SIGKILL`` or ``exit code 1``."""
    if os.WIFSIGNALED(status):
        return signal_name(os.WTERMSIG(status))
    return f"exit code {os.waitstatus_to_exitcode(status)}"


def _members(leader_pid: int) -> set[int]:
    """Return the living descendants of the leader and all else of its session or with its mark, without itself."""
    mark = f"{_MARK}={leader_pid}".encode()
    children: dict[int, list[int]] = {}
    members: set[int] = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError, ValueError):  # it ended, or is somebody else's
            pid, stat = int(process.name), _stat(process)
            if stat[0] in "ZX":
                continue
            children.setdefault(int(stat[_PARENT]), []).append(pid)
            if int(stat[_SESSION]) == leader_pid or mark in (process / "environ").read_bytes().split(b"\0"):
                members.add(pid)
    found = [leader_pid]
    while found:
        of_one = children.get(found.pop(), [])
        members.update(of_one)
        found += of_one
    return members - {leader_pid, os.getpid()}


def _stat(process: Path) -> list[str]:
    return (process / "stat").read_text(errors="replace").rpartition(")")[2].split()


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _left_to_the_child(_number: int, _frame: object) -> None:
    """Do nothing; a program that is started here has the default again, which it would not have after SIG_IGN."""
