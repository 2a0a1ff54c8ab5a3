"""Decide what becomes of ticks that are due: which fire, and which are passed over.

A tick is **missed** when its time is more than a grace ago: no scheduler ran, or none could reach the database. One
that is younger fires, whatever the policy; so a change of leader or a slow moment is no misfire. For the missed:

- ``skip``: they do not fire.
- ``one``: one run makes up for all. It is the newest of them, or the tick that is on time just now if there is one.
- ``all``: each fires, oldest first, but at most ``cap``, the newest; so a long night makes no flood (P43).

Every tick is told of: it fires, or it lies in the one span that was passed over.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Final, Literal

from smena.timetable.when import When, between

Misfire = Literal["skip", "one", "all"]

CAP: Final = 100
"""What `all` catches up at most, if nothing else is said."""

COUNTED: Final = 1000
"""Ticks of a span are counted up to here."""


@dataclass(frozen=True, slots=True)
class Firing:
    """A tick that is to fire; ``late`` where it was missed and is caught up."""

    at: datetime
    late: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """Ticks that were passed over: the first, the last, and how many (`COUNTED` means: at least)."""

    first: datetime
    last: datetime
    count: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What becomes of the ticks that are due: those that fire, in order, and the span before that does not."""

    fire: tuple[Firing, ...] = ()
    skipped: Span | None = None


def plan(when: When, since: datetime, now: datetime, grace: timedelta, misfire: Misfire, cap: int = CAP) -> Plan:
    """Return what becomes of the ticks later than ``since`` and not later than ``now``."""
    line = max(since, now - grace)
    on_time = [Firing(at) for at in between(when, line, now)]
    newest = _newest(when, since, line, _wanted(misfire, cap, has_one=bool(on_time)))
    caught_up = [Firing(at, late=True) for at in newest]
    return Plan((*caught_up, *on_time), _span(when, since, newest[0] if newest else None, line))


def _wanted(misfire: Misfire, cap: int, *, has_one: bool) -> int:
    """Return how many missed ticks fire."""
    if misfire == "all":
        return cap
    return 1 if misfire == "one" and not has_one else 0


def _newest(when: When, start: datetime, end: datetime, count: int) -> list[datetime]:
    """Return the last ``count`` ticks of a stretch, looking back from its end in windows that double."""
    window = timedelta(minutes=1)
    while count > 0:
        begin = max(start, end - window)
        found = deque(between(when, begin, end), maxlen=count)
        if len(found) == count or begin == start:
            return list(found)
        window *= 2
    return []


def _span(when: When, since: datetime, until: datetime | None, line: datetime) -> Span | None:
    """Return the ticks before ``until`` (or all up to ``line``), or None if there are none."""
    end = line if until is None else until - timedelta(microseconds=1)
    first = when.after(since)
    if first is None or first > end:
        return None
    count = sum(1 for _ in islice(between(when, since, end), COUNTED))
    return Span(first, _newest(when, since, end, 1)[0], count)
