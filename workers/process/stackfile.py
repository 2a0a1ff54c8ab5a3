"""Write the stacks of all threads into a file when USR2 comes, and read them from outside.

`faulthandler` writes them in the C-level handler, so a child answers also while its interpreter is held by C code.
"""

from __future__ import annotations

import faulthandler
import os
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

SIGNAL = signal.SIGUSR2
_CAUGHT = re.compile(r"^SigCgt:\s+([0-9a-f]+)$", re.MULTILINE)
_THREAD = re.compile(
    r"^(?:Current thread|Thread) (0x[0-9a-f]+).*\(most recent call first\):\n((?:  .*\n)*)", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Stack:
    """Where one thread was, innermost call first; ``thread_ident`` is Python's, as the flight recorder has it."""

    thread_ident: int
    text: str


class StackFile:
    """The writing side; open while the child lives."""

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = path.open("ab", buffering=0)
        faulthandler.register(SIGNAL, self._file, all_threads=True, chain=False)

    def close(self) -> None:
        """Stop writing here."""
        faulthandler.unregister(SIGNAL)
        self._file.close()


def ask(pid: int, path: Path) -> int | None:
    """Ask a child for its stacks; return where in the file they will begin, or None if it does not listen."""
    try:
        caught = _CAUGHT.search(Path(f"/proc/{pid}/status").read_text(errors="replace"))
        if caught is None or not int(caught[1], 16) >> (SIGNAL - 1) & 1:
            return None  # not yet, or not a child: the signal would end it
        begin = path.stat().st_size
        os.kill(pid, SIGNAL)
    except OSError:
        return None
    return begin


def read(path: Path, begin: int) -> Iterator[Stack]:
    """Yield what was written since; nothing while it was not."""
    try:
        with path.open("rb") as file:
            file.seek(begin)
            text = file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return
    for ident, stack in _THREAD.findall(text):
        yield Stack(int(ident, 16), stack)
