"""Say how much memory processes hold, alone and with all that they have started, from `/proc`.

A step that starts programs holds what they hold. Who is whose child stands only in each process's own file, so one
look at families reads all of them: about 20 µs for each process of the machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_PSS: Final = re.compile(rb"^Pss:\s+(\d+) kB$", re.MULTILINE)


def resident_bytes(pid: int) -> int:
    """Return the memory that a process holds now; 0 when it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_bytes().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * _PAGE_BYTES


def shared_once_bytes(pids: Collection[int]) -> int:
    """Return what processes hold together, a page that several hold counted once among them.

    A process that was forked holds most of its parent's pages; `resident_bytes` would count them for both. It takes
    the kernel a walk over all pages, so ask only where it matters.
    """
    return sum(map(_proportional_bytes, pids))


def families(leaders: Collection[int]) -> Mapping[int, Sequence[int]]:
    """Return each leader's living descendants, found in one look; those without any are left out."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents():
        children.setdefault(parent, []).append(pid)
    return {leader: found for leader in leaders if (found := list(_below(leader, children)))}


def _below(leader: int, children: Mapping[int, Sequence[int]]) -> Iterator[int]:
    for child in children.get(leader, ()):
        yield child
        yield from _below(child, children)


def _parents() -> Iterator[tuple[int, int]]:
    """Yield the id of each process with its parent's."""
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit():
                with suppress(OSError, ValueError):  # it has ended
                    stat = Path(entry.path, "stat").read_bytes()
                    yield int(entry.name), int(stat[stat.rindex(b")") + 4 :].split(b" ", 1)[0])


def _proportional_bytes(pid: int) -> int:
    """Return its own pages and its share of those it shares (PSS); all it holds where that is not told."""
    with suppress(OSError):
        if found := _PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_bytes()):
            return int(found[1]) * 1024
    return resident_bytes(pid)
