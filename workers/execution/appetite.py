"""Say how many items of a batch to take at once: as many as fill a slice's time, by what they were measured to need.

The first claim is small, for nothing is known; each next one may be a few times larger, so one odd item at the
beginning does no harm. Shared by a process's threads without a lock: a lost figure costs nothing.
"""

from __future__ import annotations

from typing import Final

FIRST: Final = 16
GROWTH: Final = 8
MOST_BYTES: Final = 4 * 1024 * 1024
"""Of items as JSON text in one claim: bounds the memory of a slice whatever the items hold."""


class Appetite:
    """The measured size and time of a batch's items."""

    def __init__(self, largest: int, slice_s: float) -> None:
        self._largest = largest
        self._slice_s = slice_s
        self._wish = min(FIRST, largest)

    def wish(self) -> int:
        """Return how many items to ask for."""
        return self._wish

    def learn(self, items: int, seconds: float, size_bytes: int) -> None:
        """Take in what a claim of that many items came to."""
        if items <= 0:
            return
        by_time = self._slice_s * items / max(seconds, 1e-6)
        by_bytes = MOST_BYTES * items / max(size_bytes, 1)
        wanted = min(by_time, by_bytes, self._largest, max(items, self._wish) * GROWTH)
        self._wish = max(1, round((wanted + self._wish) / 2) if wanted < self._wish else int(wanted))
