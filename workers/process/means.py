"""Know whether a process has run out of its own means: descriptors, memory, threads.

Nothing outside has failed then, and nothing comes back by waiting: another process can do what this one cannot.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

_SPENT: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})

_CONNECTION_DESCRIPTORS: Final = 4
"""What a connection takes while it is made: its socket, the files of the name's look-up, those of TLS."""

_CONNECTION_BYTES: Final = 1 << 20

_NO_THREAD: Final = "can't start new thread"
"""All that CPython says of it is a `RuntimeError` with this text."""


def shortage(error: BaseException) -> BaseException | None:
    """Return what this process lacked when it failed to connect with ``error``, or None if it lacks nothing."""
    return next((cause for cause in _chain(error) if _says_so(cause)), None) or missing()


def missing() -> OSError | None:
    """Try what a connection takes; return the error if the process is out of it.

    Tried and not read from an error: of a socket that it could not make libpq says only `connection is bad`.
    """
    try:
        with ExitStack() as held:
            for _ in range(_CONNECTION_DESCRIPTORS):
                held.callback(os.close, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            mmap.mmap(-1, _CONNECTION_BYTES).close()
    except OSError as error:
        return error if error.errno in _SPENT else None
    return None


def _says_so(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno in _SPENT
    return isinstance(error, MemoryError) or (type(error) is RuntimeError and _NO_THREAD in str(error))


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__
