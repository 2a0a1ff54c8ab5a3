"""Let the prefetch follow the measured length of jobs, and the flight recorder the link's tick."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from smena.lifecycle import Loop
from smena.telemetry import events
from workers.execution.seat import Seat

EVERY_S: Final = 0.1
"""Short, since a worker begins with few messages in hand and a full queue should not wait for it."""


class TickMark(Protocol):
    """Where the link's tick is kept for readers outside this process."""

    link_tick: int


class Pace(Loop):
    """The loop that looks at the seats; a service."""

    def __init__(
        self,
        seats: Sequence[Seat],
        observe: Callable[[int, float], None],
        link_tick: Callable[[], int],
        mark: TickMark,
    ) -> None:
        super().__init__("pace", self._round, events.loop_failed)
        self._seats = seats
        self._observe = observe
        self._link_tick = link_tick
        self._mark = mark
        self._finished = 0
        self._busy_s = 0.0

    def _round(self, stopping: threading.Event) -> None:
        finished = sum(seat.finished for seat in self._seats)
        busy_s = sum(seat.busy_s for seat in self._seats)
        if finished != self._finished:
            self._observe(finished - self._finished, busy_s - self._busy_s)
            self._finished, self._busy_s = finished, busy_s
        self._mark.link_tick = self._link_tick()
        stopping.wait(EVERY_S)
