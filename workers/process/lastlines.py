"""Keep the last lines that a child logged in a memory-mapped file that outlives it, however it dies.

A ring of bytes: a header word counts all that was ever written, the rest holds the end of it.
"""

from __future__ import annotations

import struct
import threading
from pathlib import Path

from smena.telemetry.line_writer import LineWriter
from workers.process.folder import map_new_file

_COUNT = struct.Struct("<Q")
_RING_BYTES = 16 * 1024 - _COUNT.size
_LINES = 10


class LastLines:
    """The writing side; for all threads of one process."""

    def __init__(self, path: Path) -> None:
        """Make the file; raises `FolderRefused`."""
        self._map = map_new_file(path, _COUNT.size + _RING_BYTES)
        self._written = 0
        self._lock = threading.Lock()

    def writer(self) -> LineWriter:
        """Return what a log writes to."""
        return LineWriter(self._append, -1)

    def _append(self, line: bytes) -> int:
        piece = line[-_RING_BYTES:]
        with self._lock:
            at = self._written % _RING_BYTES
            first = piece[: _RING_BYTES - at]
            self._put(at, first)
            self._put(0, piece[len(first) :])
            self._written += len(piece)
            _COUNT.pack_into(self._map, 0, self._written)
        return len(line)

    def _put(self, at: int, piece: bytes) -> None:
        self._map[_COUNT.size + at : _COUNT.size + at + len(piece)] = piece


def read(path: Path) -> str:
    """Return the last lines, the newest last; nothing where there is no such file."""
    try:
        data = path.read_bytes()
    except OSError:
        return ""
    if len(data) < _COUNT.size + _RING_BYTES:
        return ""
    (written,) = _COUNT.unpack_from(data)
    ring, at = data[_COUNT.size :], written % _RING_BYTES
    text = ring[at:] + ring[:at] if written > _RING_BYTES else ring[:at]
    lines = text.decode("utf-8", "replace").splitlines()
    return "\n".join((lines[1:] if written > _RING_BYTES else lines)[-_LINES:])
