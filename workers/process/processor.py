"""Tell from `/proc` which thread of a process takes its processor time, and whether the process was stopped."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

_MOST: Final = 0.7
"""The part of a process's time that one thread must have taken to be the one that holds the rest."""

_LEAST_TICKS: Final = 5
"""Time, in the kernel's ticks of 10 ms, below which it says nothing."""

_STOPPED: Final = frozenset("tT")


def used(pid: int) -> dict[int, int]:
    """Return the time, in ticks, that each thread (by native id) has taken so far."""
    found: dict[int, int] = {}
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError, IndexError, ValueError):
                fields = _fields(task / "stat")
                found[int(task.name)] = int(fields[11]) + int(fields[12])
    return found


def spender(pid: int, before: Mapping[int, int]) -> int | None:
    """Return the one thread that has taken nearly all of the time since ``before`` was `used`."""
    spent = {thread: ticks - before.get(thread, 0) for thread, ticks in used(pid).items()}
    total = sum(spent.values())
    return next((one for one, ticks in spent.items() if ticks >= _LEAST_TICKS and ticks >= _MOST * total), None)


def is_stopped(pid: int) -> bool:
    """Say whether it stands still by SIGSTOP, or for a debugger."""
    with suppress(OSError, IndexError):
        return _fields(Path(f"/proc/{pid}/stat"))[0] in _STOPPED
    return False


def _fields(stat: Path) -> list[str]:
    """Return what follows the name, which may hold blanks: the state first, user and system time at 11 and 12."""
    return stat.read_text(errors="replace").rpartition(")")[2].split()
