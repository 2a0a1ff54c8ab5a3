"""Look at what running steps hold, with all that they have started.

The process of a step is looked at each time. To find what it has started takes a look at every process of the machine,
so that is done as seldom as keeps it within a fiftieth of one processor. What counts is the processor's time: a look
that has to wait for the interpreter, while a job computes beside it, is no dearer for that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from smena.clock import SYSTEM, Clock
from workers.process import footprint

SHARE: Final = 0.02
"""Part of one processor that the looks at families may take."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a step holds: its process alone, and together with all that it has started."""

    alone_bytes: int
    together_bytes: int


class PoolMemory:
    """The looks at the steps of one pool; for one thread."""

    def __init__(
        self, most_bytes: int, clock: Clock = SYSTEM, worked_s: Callable[[], float] = time.thread_time
    ) -> None:
        self._most_bytes = most_bytes
        self._clock = clock
        self._worked_s = worked_s
        self._families_at_s = 0.0

    def look(self, leaders: Collection[int]) -> Mapping[int, Held]:
        """Return what the steps of these processes hold; families are left out of account between two looks at them."""
        families = self._families(leaders)
        return {leader: self._held(leader, families.get(leader, ())) for leader in leaders}

    def _held(self, leader: int, others: Sequence[int]) -> Held:
        alone = footprint.resident_bytes(leader)
        together = alone + sum(map(footprint.resident_bytes, others))
        if others and together > self._most_bytes:
            together = max(alone, footprint.shared_once_bytes([leader, *others]))
        return Held(alone, together)

    def _families(self, leaders: Collection[int]) -> Mapping[int, Sequence[int]]:
        if not leaders or self._clock.monotonic() < self._families_at_s:
            return {}
        before_s = self._worked_s()
        found = footprint.families(leaders)
        self._families_at_s = self._clock.monotonic() + (self._worked_s() - before_s) / SHARE
        return found
