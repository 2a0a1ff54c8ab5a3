"""Find and end the processes that live in a folder.

A private service runs with its own folder as working directory, and so do all its children. The kernel therefore
knows at any time what belongs to it: no file with process ids can be stale, and a process that lost its parent,
changed its session or rewrote its title is still found. Only programs with a known name count, so that a person who
reads a log in that folder is left alone.
"""

import os
import signal
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from smena.clock import Deadline
from workers.local.patience import wait_until


class Resident(NamedTuple):
    """Describe one live process."""

    pid: int
    parent: int
    program: str


def residents(folder: Path, programs: Collection[str]) -> list[Resident]:
    """Return the live processes of ``programs`` whose working directory is ``folder`` or below it, lowest pid first."""
    home = str(folder.resolve())
    found = (_look(int(entry.name), home) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return sorted(one for one in found if one is not None and one.program in programs)


def signal_all(folder: Path, programs: Collection[str], number: signal.Signals) -> None:
    """Send one signal to every resident; those that end meanwhile are no error."""
    for resident in residents(folder, programs):
        _signal(resident.pid, number)


def end_all(folder: Path, programs: Collection[str], deadline: Deadline) -> bool:
    """Kill every resident, again and again as they fork, and say whether none is left by the deadline."""

    def gone() -> bool:
        signal_all(folder, programs, signal.SIGKILL)
        return not residents(folder, programs)

    return wait_until(gone, deadline)


def _look(pid: int, home: str) -> Resident | None:
    try:
        # The link cannot be read for the dead (zombies) and for other users' processes.
        if not Path(f"/proc/{pid}/cwd").readlink().is_relative_to(home):
            return None
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    name, _, rest = stat.partition("(")[2].rpartition(")")
    return Resident(pid, int(rest.split()[1]), name)


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
