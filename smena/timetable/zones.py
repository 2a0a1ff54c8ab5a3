"""Name time zones and find where their clocks change.

The rules come from the machine's zoneinfo, else from the package `tzdata`, so a bare image has them too.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from smena.errors import Misdeclared

_STEP: Final = timedelta(days=1)
"""Two clock changes of one zone within this time, which undo each other, are not seen; no zone has had such."""

_SECOND: Final = timedelta(seconds=1)
_OF_THE_HOST: Final = frozenset({"localtime", "posixrules", "Factory"})


def zone_of(name: object, **facts: str) -> ZoneInfo:
    """Return the zone of an IANA name; raises `Misdeclared` with ``facts`` for anything else."""
    if not isinstance(name, str):
        raise Misdeclared("a time zone is given by its name", tz=repr(name), **facts)
    try:
        if name in _OF_THE_HOST:
            raise ZoneInfoNotFoundError(name)
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        near = get_close_matches(name, sorted(available_timezones()), n=1)
        hint = {"nearest": near[0]} if near else {}
        raise Misdeclared("no such time zone", tz=repr(name), **hint, **facts) from error


def offset_at(zone: ZoneInfo, instant: datetime) -> timedelta:
    """Return how far the zone's clocks are ahead of UTC at an instant."""
    return instant.astimezone(zone).utcoffset() or timedelta()


def wall_at(zone: ZoneInfo, instant: datetime) -> datetime:
    """Return what the zone's clocks show at an instant, without a zone."""
    return instant.astimezone(zone).replace(tzinfo=None)


def first_change(zone: ZoneInfo, start: datetime, end: datetime) -> datetime | None:
    """Return the first instant later than ``start``, not later than ``end``, at which the offset is another.

    Instants are in UTC and whole seconds, as clock changes are.
    """
    before, known = offset_at(zone, start), start
    while known < end:
        probe = min(known + _STEP, end)
        if offset_at(zone, probe) != before:
            return _narrow(zone, known, probe)
        known = probe
    return None


def first_instant(zone: ZoneInfo, wall: datetime) -> datetime:
    """Return when the clocks show ``wall`` for the first time; in a gap, the instant at which the gap ends."""
    early, late = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if wall_at(zone, early) == wall:
        return early
    # In a gap the two readings lie on both sides of the change: the offset before it gives the later one.
    return first_change(zone, late, early) or early


def shows_twice(zone: ZoneInfo, wall: datetime) -> bool:
    """Say whether the clocks show ``wall`` two times."""
    early, late = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    return early < late and wall_at(zone, early) == wall


def _narrow(zone: ZoneInfo, known: datetime, changed: datetime) -> datetime:
    """Halve the stretch in which the offset changes until the change is found to the second."""
    before = offset_at(zone, known)
    while changed - known > _SECOND:
        middle = known + timedelta(seconds=(changed - known) // _SECOND // 2)
        if offset_at(zone, middle) == before:
            known = middle
        else:
            changed = middle
    return changed
