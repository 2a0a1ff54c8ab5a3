"""Have the kernel bound what a step and all it has started hold, where a control group (v2) was delegated to us.

The supervisor looks once, at its start: `take_over` moves it out of the delegated group into one below, which has to be
before others may have bounds of their own, and hands the memory controller down. Each pool process then makes a group
beside and enters it. Where anything of this cannot be done, it is said why, and the other bounds must do.

Only what was delegated is touched: a group that systemd has marked so, or the topmost one of a container's own
name space. In others, service managers may move or remove what they did not make.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

_FLEET: Final = "smena-fleet"
_STEP: Final = "smena-step-"
_MARKS: Final = ("user.delegate", "trusted.delegate")


@dataclass(frozen=True, slots=True)
class Delegated:
    """The group below which steps may have groups of their own, empty for none, and how that was found."""

    folder: str
    said: str


class Refused(Exception):
    """There is no group for us; the message says why."""


def take_over(process: Path = Path("/proc/self")) -> Delegated:
    """Make ready the group that was delegated to this process, if one was. Never raises."""
    try:
        group = _delegated(process)
        _make_room(group)
        _try_bound(group)
    except (Refused, OSError) as why:
        return Delegated("", f"no control group: {why.strerror if isinstance(why, OSError) else why}")
    return Delegated(str(group), f"control group {group}")


def enter(folder: str, most_bytes: int) -> None:
    """Put this process, and all it will start, into a group of its own with that bound; `OSError` if it cannot be."""
    group = _step(folder, os.getpid())
    group.mkdir()
    _bound(group, most_bytes)
    (group / "cgroup.procs").write_text(str(os.getpid()))


def leave(folder: str, pid: int) -> bool:
    """Kill what is left of a dead step's group and remove it; return whether the kernel had killed for its bound."""
    group = _step(folder, pid)
    with suppress(OSError):  # kernels before 5.14
        (group / "cgroup.kill").write_text("1")
    was_killed = _count(group / "memory.events", "oom_kill") > 0
    with suppress(OSError):  # somebody is not dead yet; the next start of the fleet removes it
        group.rmdir()
    return was_killed


def _delegated(process: Path) -> Path:
    """Return the delegated group that this process is in, or right below."""
    own, is_topmost = _own_group(process)
    group = next((one for one in (own, own.parent) if _is_marked(one)), own if is_topmost else None)
    if group is None:
        raise Refused("the process's group is not delegated (systemd: Delegate=memory)")
    if "memory" not in (group / "cgroup.controllers").read_text().split():
        raise Refused("the group has no memory controller")
    if not os.access(group, os.W_OK):
        raise Refused("the group may not be changed")
    return group


def _own_group(process: Path) -> tuple[Path, bool]:
    """Return the folder of this process's group, and whether it is the topmost of its name space."""
    named = next((line[3:] for line in (process / "cgroup").read_text().splitlines() if line.startswith("0::")), None)
    mount = next(_mounts(process), None)
    if named is None or mount is None:
        raise Refused("no control groups of version 2 are mounted")
    top, place = mount
    below = PurePosixPath(named)
    return place / (below.relative_to(top) if below.is_relative_to(top) else below.relative_to("/")), named == "/"


def _mounts(process: Path) -> Iterator[tuple[PurePosixPath, Path]]:
    """Yield which group is mounted where (`man 5 proc_pid_mountinfo`)."""
    for line in (process / "mountinfo").read_text().splitlines():
        fields, _, kind = line.partition(" - ")
        if kind.startswith("cgroup2 "):
            yield PurePosixPath(fields.split()[3]), Path(fields.split()[4])


def _is_marked(group: Path) -> bool:
    for mark in _MARKS:
        with suppress(OSError):
            if os.getxattr(group, mark) == b"1":
                return True
    return False


def _make_room(group: Path) -> None:
    """Hand the memory controller down, for which no process may be in the group itself."""
    for left in group.glob(f"{_STEP}*"):
        with suppress(OSError):
            left.rmdir()
    inside = {int(pid) for pid in (group / "cgroup.procs").read_text().split()}
    if inside - {os.getpid()}:
        raise Refused("other processes live in the group")
    if inside:
        (group / _FLEET).mkdir(exist_ok=True)
        (group / _FLEET / "cgroup.procs").write_text(str(os.getpid()))
    (group / "cgroup.subtree_control").write_text("+memory")


def _try_bound(group: Path) -> None:
    trial = _step(str(group), 0)
    trial.mkdir(exist_ok=True)
    _bound(trial, 1 << 30)
    with suppress(OSError):
        trial.rmdir()


def _bound(group: Path, most_bytes: int) -> None:
    """Set the bound; at it the kernel ends the group as one, and nothing is swapped out to hide it."""
    (group / "memory.max").write_text(str(most_bytes))
    (group / "memory.oom.group").write_text("1")
    with suppress(OSError):  # no swap on this machine
        (group / "memory.swap.max").write_text("0")


def _step(folder: str, pid: int) -> Path:
    return Path(folder) / f"{_STEP}{pid}"


def _count(file: Path, name: str) -> int:
    with suppress(OSError, ValueError):
        return int(dict(line.split() for line in file.read_text().splitlines()).get(name, 0))
    return 0
