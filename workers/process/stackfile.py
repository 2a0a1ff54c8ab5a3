"""Write the stacks of all threads into a file when a signal comes, and read them from outside.

USR2 is answered by a thread of the child, which holds the interpreter's lock, so no other moves meanwhile. A child
whose interpreter is held by C code cannot answer so; it is then asked by a second signal, which `faulthandler` answers
in the C-level handler. It is not the first choice: it reads the frames of threads that may run on (tried on Python
3.11: with four busy threads the process crashed after some ten askings), which those of a held interpreter do not.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from workers.process.folder import refusal_named

SIGNAL = signal.SIGUSR2
HELD_SIGNAL = signal.SIGRTMIN
_CAUGHT = re.compile(r"^SigCgt:\s+([0-9a-f]+)$", re.MULTILINE)
_STATE = re.compile(r"^State:\s+(\S)", re.MULTILINE)
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
        """Make the file; raises `FolderRefused`."""
        with refusal_named(path.parent):
            self._file = path.open("ab", buffering=0)
        faulthandler.register(HELD_SIGNAL, self._file, all_threads=True, chain=False)

    def write(self) -> None:
        """Write where each thread is, innermost call first, in one piece; nothing where there is no room."""
        stacks = sys._current_frames().items()  # noqa: SLF001  (the documented way)
        text = "".join(_text(ident, frame) for ident, frame in stacks).encode("utf-8", "replace")
        with contextlib.suppress(OSError):  # no answer is better than a process that ends for being asked
            self._file.write(text)

    def close(self) -> None:
        """Stop writing here."""
        faulthandler.unregister(HELD_SIGNAL)
        self._file.close()


def _text(ident: int, frame: FrameType | None) -> str:
    lines = [f"Thread {ident:#x} (most recent call first):\n"]
    while frame is not None:
        lines.append(f'  File "{frame.f_code.co_filename}", line {frame.f_lineno} in {frame.f_code.co_name}\n')
        frame = frame.f_back
    return "".join(lines) + "\n"


def ask(pid: int, path: Path, *, held: bool = False) -> int | None:
    """Ask a child for its stacks; return where in the file they will begin, or None if it does not listen.

    ``held`` asks one that has not answered; it does not listen while it is stopped, for it would answer as it runs on.
    """
    number = HELD_SIGNAL if held else SIGNAL
    try:
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")
        if not _catches(status, number) or (held and _is_stopped(status)):
            return None
        begin = path.stat().st_size
        os.kill(pid, number)
    except OSError:
        return None
    return begin


def _catches(status: str, number: int) -> bool:
    """Say whether the signal is caught; it would end one that does not yet, or is not a child."""
    caught = _CAUGHT.search(status)
    return caught is not None and bool(int(caught[1], 16) >> (number - 1) & 1)


def _is_stopped(status: str) -> bool:
    state = _STATE.search(status)
    return state is None or state[1] in "Tt"


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
