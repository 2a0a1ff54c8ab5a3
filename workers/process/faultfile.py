"""Keep what `faulthandler` writes when a child dies of SEGV, ABRT, BUS, FPE or ILL, and read which thread it names.

The file is opened at the child's start, because nothing can be opened while dying.
"""

from __future__ import annotations

import faulthandler
import re
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from workers.process.folder import refusal_named

_FATAL = re.compile(r"^Fatal Python error: (?P<error>.+)$", re.MULTILINE)
_CURRENT = re.compile(r"^Current thread (?P<ident>0x[0-9a-f]+).*\n(?P<stack>(?:  .*\n)*)", re.MULTILINE)
_KEPT_BYTES = 64 * 1024
_STACK_CHARACTERS = 1500


@dataclass(frozen=True, slots=True)
class Fault:
    """What a dying child wrote: the fatal error, and the thread it happened in (ident 0 and no stack if unknown)."""

    error: str
    thread_ident: int
    stack: str


class FaultFile:
    """The writing side; open while the child lives."""

    def __init__(self, path: Path) -> None:
        """Make the file; raises `FolderRefused`."""
        self.path = path
        with refusal_named(path.parent):
            self._file: IO[bytes] = path.open("wb", buffering=0)
        faulthandler.enable(self._file, all_threads=True)

    def close(self) -> None:
        """Stop writing here."""
        faulthandler.disable()
        self._file.close()


def read(path: Path) -> Fault | None:
    """Return what the child wrote when it died, or None when it wrote nothing."""
    try:
        with path.open("rb") as file:
            text = file.read(_KEPT_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    fatal = _FATAL.search(text)
    if fatal is None:
        return None
    current = _CURRENT.search(text)
    if current is None:
        return Fault(fatal["error"], 0, "")
    return Fault(fatal["error"], int(current["ident"], 16), current["stack"][:_STACK_CHARACTERS])
