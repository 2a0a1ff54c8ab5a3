"""Follow the measured length of jobs with the number of messages held ahead. Pure.

Too few and threads wait for the broker; too many and short jobs wait behind long ones in the wrong worker,
and messages grow old unacked. The aim is what the slots finish in a quarter of a second.
"""

from __future__ import annotations

from typing import Final

AHEAD_S: Final = 0.25
_WEIGHT: Final = 0.5
"""How much the newest measure counts; two rounds forget most of the past."""


class Prefetch:
    """Begin with twice the slots; change only when it is half or one and a half times what it should be."""

    def __init__(self, slots: int, most: int) -> None:
        self._slots = max(1, slots)
        self._most = max(most, 1)
        self._least = min(2 * self._slots, self._most)
        self._mean_s: float | None = None
        self.current = self._least

    def share(self, queues: int) -> int:
        """Return what one of so many queues may hold: together no more than `current`, but enough for all slots."""
        return min(self.current, max(self._slots, self.current // max(queues, 1)))

    def observe(self, finished: int, busy_s: float) -> bool:
        """Take how many jobs ended since the last call and how long they ran in sum; say if `current` changed."""
        if finished <= 0:
            return False
        mean_s = max(busy_s, 0.0) / finished
        self._mean_s = mean_s if self._mean_s is None else _WEIGHT * mean_s + (1 - _WEIGHT) * self._mean_s
        wanted = self._wanted(self._mean_s)
        if self.current / 2 < wanted < self.current * 1.5 and wanted not in {self._least, self._most}:
            return False
        changed = wanted != self.current
        self.current = wanted
        return changed

    def _wanted(self, mean_s: float) -> int:
        ahead = self._slots * AHEAD_S / max(mean_s, 1e-6)
        return int(min(self._most, max(self._least, self._slots + ahead)))
