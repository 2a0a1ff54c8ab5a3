"""Come again after a fixed time, whatever the clocks of a zone do.

Instants are counted from the Unix epoch, not from a process's start, so all processes mean the same ones and a
restart moves none: `every(minutes=5)` comes at :00, :05, …, `every(hours=24)` at midnight UTC.
"""

from __future__ import annotations

import inspect
from datetime import UTC, datetime, timedelta
from typing import Final

from smena.errors import Misdeclared

_LONGEST: Final = timedelta(days=366)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Every:
    """A fixed period of whole seconds; a `When`."""

    def __init__(self, period: timedelta, place: str | None = None) -> None:
        if not timedelta(seconds=1) <= period <= _LONGEST or period.microseconds:
            facts = {} if place is None else {"place": place}
            raise Misdeclared("a period is whole seconds, from 1 to 366 days of them", period=str(period), **facts)
        self.period = period

    @property
    def spec(self) -> str:
        """Return the period in seconds."""
        return f"every {self.period // timedelta(seconds=1)}s"

    def __repr__(self) -> str:
        return f"every(seconds={self.period // timedelta(seconds=1)})"

    def after(self, instant: datetime) -> datetime:
        """Return the next multiple of the period."""
        return _EPOCH + ((instant - _EPOCH) // self.period + 1) * self.period


def every(*, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> Every:
    """Return the schedule of a fixed period: ``every(minutes=5)``; raises `Misdeclared` with the place of the call."""
    frame = inspect.currentframe()
    caller = None if frame is None else frame.f_back
    place = None if caller is None else f"{caller.f_code.co_filename}:{caller.f_lineno}"
    try:
        period = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    except (TypeError, ValueError, OverflowError) as error:
        raise Misdeclared("a period is made of numbers", place=place) from error
    return Every(period, place)
