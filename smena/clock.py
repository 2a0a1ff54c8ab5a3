"""Tell the time, in the two ways that matter.

`now` is wall time in UTC, for what is stored and shown; it may step. `monotonic` never goes back,
for what is measured and waited for. Code takes a `Clock`, so that a test can move it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Give wall time and monotonic time."""

    def now(self) -> datetime:
        """Return the current time, aware, in UTC."""

    def now_ms(self) -> int:
        """Return milliseconds since the Unix epoch."""

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back."""


class SystemClock:
    """The machine's own clocks, also while code in this process has replaced `time`'s functions by others."""

    _now = staticmethod(datetime.now)
    _time_ns = staticmethod(time.time_ns)

    monotonic = staticmethod(time.monotonic)
    """Return seconds on a clock that never goes back."""

    def now(self) -> datetime:
        """Return the current time, aware, in UTC."""
        return self._now(UTC)

    def now_ms(self) -> int:
        """Return milliseconds since the Unix epoch."""
        return self._time_ns() // 1_000_000


class MovedClock:
    """A clock that stands still until it is moved; for tests.

    >>> clock = MovedClock(datetime(2026, 1, 1, tzinfo=UTC))
    >>> clock.advance(1.5); clock.monotonic()
    1.5
    """

    def __init__(self, start: datetime) -> None:
        self._start = start
        self._passed_s = 0.0

    def advance(self, seconds: float) -> None:
        """Move both clocks forward."""
        self._passed_s += seconds

    def now(self) -> datetime:
        """Return the start plus what was advanced."""
        return self._start + timedelta(seconds=self._passed_s)

    def now_ms(self) -> int:
        """Return `now` in milliseconds since the Unix epoch."""
        return int(self.now().timestamp() * 1000)

    def monotonic(self) -> float:
        """Return the seconds advanced so far."""
        return self._passed_s


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment on the monotonic clock by which several steps must be done together.

    One deadline is handed through all steps of a shutdown, so that their waits share one budget.
    """

    clock: Clock
    at_s: float

    @classmethod
    def within(cls, seconds: float, clock: Clock) -> Deadline:
        """Return the deadline that lies ``seconds`` ahead."""
        return cls(clock, clock.monotonic() + seconds)

    def left_s(self) -> float:
        """Return the seconds left, never below zero."""
        return max(0.0, self.at_s - self.clock.monotonic())

    def passed(self) -> bool:
        """Say whether nothing is left."""
        return self.left_s() <= 0.0


SYSTEM = SystemClock()
