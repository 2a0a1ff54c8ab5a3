"""Write log lines: one line, one write, never torn, never waiting long.

Several processes share one standard error. A pipe takes at most `LINE_LIMIT` bytes (PIPE_BUF) as one
piece, so no line is longer, and lines of different processes never mix. A reader that does not read
would block the writer for ever: pipes and terminals are opened once more without blocking (a new
description, so that nobody else's writes change), and a line that finds no room within `PATIENCE_S`
is given up and counted. After one such line the next do not wait at all until the reader is back.
Nothing is buffered, so nothing is lost at exit.
"""

from __future__ import annotations

import contextlib
import functools
import os
import select
import socket
import stat
import time
from collections.abc import Callable
from pathlib import Path

LINE_LIMIT = 4096
PATIENCE_S = 0.05

Write = Callable[[bytes], int]


class LineWriter:
    """Write lines to one descriptor; `dropped` counts those given up since `take_dropped` was called."""

    def __init__(self, write: Write, descriptor: int, close: Callable[[], None] | None = None) -> None:
        self._write = write
        self._descriptor = descriptor
        self._close = close
        self._deaf = False
        self.dropped = 0

    @classmethod
    def shared(cls, descriptor: int = 2) -> LineWriter:
        """Return a writer beside others on a descriptor such as standard error."""
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISSOCK(mode):
            # The journal's standard error is a socket: it cannot be opened again, but one call can refuse to wait.
            ours = socket.socket(fileno=os.dup(descriptor))
            return cls(lambda line: ours.send(line, socket.MSG_DONTWAIT), ours.fileno(), ours.close)
        if stat.S_ISFIFO(mode) or os.isatty(descriptor):
            with contextlib.suppress(OSError):  # not ours to open (another user's pipe): write as it is
                flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
                return cls._to(os.open(f"/proc/self/fd/{descriptor}", flags), owned=True)
        return cls._to(descriptor, owned=False)

    @classmethod
    def to_file(cls, path: Path) -> LineWriter:
        """Return a writer that appends to a file, which other processes may also append to."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        return cls._to(os.open(path, flags, 0o640), owned=True)

    @classmethod
    def _to(cls, descriptor: int, *, owned: bool) -> LineWriter:
        close = functools.partial(os.close, descriptor) if owned else None
        return cls(functools.partial(os.write, descriptor), descriptor, close)

    def write(self, line: bytes) -> bool:
        """Write one line, with its line feed; return whether it got out. Never raises."""
        give_up_at = time.monotonic() + (0.0 if self._deaf else PATIENCE_S)
        while True:
            try:
                self._write(line)
                self._deaf = False
                return True
            except BlockingIOError:
                if self._wait(give_up_at - time.monotonic()):
                    continue
                self._deaf = True
            except (OSError, ValueError):  # the reader is gone, the disk is full, the descriptor closed
                pass
            self.dropped += 1
            return False

    def take_dropped(self) -> int:
        """Return how many lines were given up, and begin to count anew."""
        dropped, self.dropped = self.dropped, 0
        return dropped

    def close(self) -> None:
        """Close the descriptor if it was opened here."""
        if self._close is not None:
            self._close()
            self._close = None

    def _wait(self, seconds: float) -> bool:
        """Wait for room; say whether a further try makes sense."""
        if seconds <= 0:
            return False
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        return bool(poll.poll(seconds * 1000))
