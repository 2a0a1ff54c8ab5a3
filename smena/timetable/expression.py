"""Read a cron expression in a time zone, and say what a clock change does to it.

Five fields as Debian's cron reads them, `cronsim` parses them; `@daily` and its kin are names for some. Clock
changes follow one of two rules, by how the expression is written:

- Minute and hour both without a star at their head: a **time of day**. It comes once a day that has it: twice
  shown (the clocks go back), the first time; not shown at all (they go forward), at the moment the gap ends. Several
  that fall into one gap come together, as one.
- Else it is a **rhythm**: it comes whenever the clocks show it. What they skip does not come, what they show twice
  comes twice.
"""

from __future__ import annotations

import inspect
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from smena.errors import Misdeclared
from smena.timetable.zones import first_change, first_instant, offset_at, wall_at, zone_of

_NAMES: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_LONGEST: Final = 200
_SECOND: Final = timedelta(seconds=1)
_ANY_DAY: Final = datetime(2000, 1, 1)  # noqa: DTZ001 - what a clock shows, in no zone


class Cron:
    """A cron expression in a zone; a `When`."""

    def __init__(self, expression: str, tz: str = "UTC", place: str | None = None) -> None:
        facts = {} if place is None else {"place": place}
        self.zone: ZoneInfo = zone_of(tz, **facts)
        self.expression = _checked(expression, facts)
        minute, hour, *_ = self.expression.split()
        self.is_time_of_day = not (minute.startswith("*") or hour.startswith("*"))

    @property
    def spec(self) -> str:
        """Return the expression and its zone."""
        return f"cron {self.expression} {self.zone.key}"

    def __repr__(self) -> str:
        return f"cron({self.expression!r}, tz={self.zone.key!r})"

    def after(self, instant: datetime) -> datetime | None:
        """Return the next instant; None if none comes within 50 years."""
        if self.is_time_of_day:
            return self._time_of_day(instant.astimezone(UTC))
        return self._rhythm(instant.astimezone(UTC).replace(microsecond=0) + _SECOND)

    def shows(self, wall: datetime) -> bool:
        """Say whether the expression names just what a clock shows here."""
        return self._first_from(wall) == wall

    def _time_of_day(self, after: datetime) -> datetime | None:
        wall: datetime | None = wall_at(self.zone, after).replace(microsecond=0)
        while wall is not None and (wall := self._first_from(wall)) is not None:
            instant = first_instant(self.zone, wall)
            if instant > after:
                return instant
            wall += _SECOND
        return None

    def _rhythm(self, start: datetime) -> datetime | None:
        """Return the first instant from ``start`` on, going through the stretches between clock changes."""
        while True:
            offset = offset_at(self.zone, start)
            wall = self._first_from((start + offset).replace(tzinfo=None))
            if wall is None:
                return None
            instant = (wall - offset).replace(tzinfo=UTC)
            change = first_change(self.zone, start, instant)
            if change is None:
                return instant
            start = change

    def _first_from(self, wall: datetime) -> datetime | None:
        """Return what a clock that never changes shows next, ``wall`` itself included."""
        return next(CronSim(self.expression, wall - _SECOND), None)


def cron(expression: str, tz: str = "UTC") -> Cron:
    """Return the schedule of a cron expression on the clocks of a zone: ``cron("0 3 * * *", tz="Europe/Moscow")``.

    Raises `Misdeclared` with the place of the call.
    """
    frame = inspect.currentframe()
    caller = None if frame is None else frame.f_back
    return Cron(expression, tz, None if caller is None else f"{caller.f_code.co_filename}:{caller.f_lineno}")


def _checked(expression: object, facts: dict[str, str]) -> str:
    """Return the expression with single spaces and no name; raise `Misdeclared` for one that never comes."""
    facts = {"expression": repr(expression)[:_LONGEST], **facts}
    if not isinstance(expression, str) or not expression.isascii() or len(expression) > _LONGEST:
        raise Misdeclared("a cron expression is a short text", **facts)
    text = " ".join(_NAMES.get(expression.strip().lower(), expression).upper().split())
    if text.startswith("@"):
        raise Misdeclared(f"no such name; there are {', '.join(_NAMES)}", **facts)
    if len(text.split()) != 5:
        raise Misdeclared("a cron expression has five fields; for seconds there is every(seconds=…)", **facts)
    try:
        first = next(CronSim(text, _ANY_DAY), None)
    except CronSimError as error:
        raise Misdeclared(str(error), **facts) from error
    if first is None:
        raise Misdeclared("such a day never comes", **facts)
    return text
