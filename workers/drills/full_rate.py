"""Know how fast a fleet works before a fault, and when it works as fast again."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from workers.drills.ground import Ground

_MEASURED_S: Final = 2.0
_WINDOW_S: Final = 1.0
_FULL: Final = 0.9


class FullRate:
    """The rate of two seconds at work; made before the fault, by waiting for them."""

    def __init__(self, ground: Ground) -> None:
        ground.full()
        began = ground.sight.now()
        ground.go_on(_MEASURED_S)
        ended = [at for at in ground.sight.ended_at() if began <= at < began + _MEASURED_S]
        self.per_s = len(ended) / _MEASURED_S

    def again(self, ground: Ground, since: float, within_s: float) -> float:
        """Wait until a second from ``since`` (the database's clock) on had nine tenths of it; return when it began."""
        ground.recovered(lambda: self._reached(ground, since) is not None, "the full rate", within_s)
        reached_s = self._reached(ground, since)
        return within_s if reached_s is None else reached_s

    def _reached(self, ground: Ground, since: float) -> float | None:
        return reached(ground.sight.ended_at(), since, _FULL * self.per_s * _WINDOW_S)


def reached(ended_at: Sequence[float], since: float, least: float) -> float | None:
    """Return after how many seconds a window began in which so many ended, or None; ``ended_at`` is in order."""
    for first in range(bisect_left(ended_at, since), len(ended_at)):
        if bisect_left(ended_at, ended_at[first] + _WINDOW_S) - first >= least:
            return ended_at[first] - since
    return None
