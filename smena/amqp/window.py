"""Bound what is sent and not yet confirmed, in messages and in bytes, so that memory is bounded too."""

from __future__ import annotations

import threading

from smena.clock import Clock, Deadline


class Window:
    """A gate that callers wait at while too much is under way. Something larger than all goes alone."""

    def __init__(self, most: int, most_bytes: int, clock: Clock) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._clock = clock
        self._count = 0
        self._bytes = 0
        self._changed = threading.Condition(threading.Lock())

    def enter(self, count: int, size: int, deadline: Deadline) -> bool:
        """Take room; wait for it until the deadline; say whether there was."""
        with self._changed:
            while not self._has_room(count, size):
                left_s = deadline.left_s()
                if left_s <= 0:
                    return False
                self._changed.wait(left_s)
            self._count += count
            self._bytes += size
            return True

    def leave(self, count: int, size: int) -> None:
        """Give room back."""
        with self._changed:
            self._count -= count
            self._bytes -= size
            self._changed.notify_all()

    def _has_room(self, count: int, size: int) -> bool:
        fits = self._count + count <= self._most and self._bytes + size <= self._most_bytes
        return fits or self._count == 0
