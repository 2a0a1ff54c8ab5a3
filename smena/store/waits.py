"""Remember how long connections were waited for of late."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from smena.clock import SYSTEM, Clock

LOOKED_BACK_S: Final = 10.0
_KEPT: Final = 1000
"""Of more waits than these in that time, the last count."""


class Waits:
    """The waits of one process for connections that were not at hand; from any thread, and without a lock."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._ended: deque[tuple[float, float]] = deque(maxlen=_KEPT)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note how long the block takes, also if it fails."""
        began_s = self._clock.monotonic()
        try:
            yield
        finally:
            ended_s = self._clock.monotonic()
            self._ended.append((ended_s, ended_s - began_s))

    def longest_s(self) -> float:
        """Return the longest that ended of late; 0 if there was none."""
        since_s = self._clock.monotonic() - LOOKED_BACK_S
        return max((wait_s for ended_s, wait_s in self._ended.copy() if ended_s >= since_s), default=0.0)
