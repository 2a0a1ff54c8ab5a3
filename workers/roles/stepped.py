"""Notice that a clock was set: the database's, or this host's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

from smena.clock import Clock
from smena.telemetry import events

TOLERATED_S: Final = 2.0
"""What a slow answer, or a clock that is slewed, may make of it."""


class Steps:
    """Compare how far clocks moved between two looks with the time that passed."""

    def __init__(self, database_now: Callable[[], datetime], clock: Clock) -> None:
        self._database_now = database_now
        self._clock = clock
        self._before: tuple[float, dict[str, datetime]] | None = None

    def look(self) -> None:
        """Read the clocks; tell of one that was set since the last look.

        An answer that took longer than what is tolerated says nothing: when the clock was read is not known.
        """
        asked_s = self._clock.monotonic()
        shown = {"database": self._database_now(), "host": self._clock.now()}
        at_s = self._clock.monotonic()
        if at_s - asked_s > TOLERATED_S:
            self.forget()
            return
        if self._before is not None:
            before_s, before = self._before
            for name, now in shown.items():
                step_s = (now - before[name]).total_seconds() - (at_s - before_s)
                if abs(step_s) > TOLERATED_S:
                    events.emit(events.SCHEDULE_CLOCK_STEPPED, clock=name, step_s=round(step_s, 3))
        self._before = (at_s, shown)

    def forget(self) -> None:
        """Begin anew: between this look and the last, the process may have been away."""
        self._before = None
