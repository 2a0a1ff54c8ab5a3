"""Show the ticks to come, and what a clock change does to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from smena.timetable.expression import Cron
from smena.timetable.when import When
from smena.timetable.zones import offset_at, shows_twice, wall_at


@dataclass(frozen=True, slots=True)
class Coming:
    """A tick to come: the instant, what the schedule's clocks show then, and what is unusual about it, or nothing."""

    at: datetime
    local: datetime
    mark: str


def coming(when: When, after: datetime, count: int) -> Iterator[Coming]:
    """Give the next ticks, at most ``count``."""
    before, at = after, when.after(after)
    for _ in range(count):
        if at is None:
            return
        yield _coming(when, before, at)
        before, at = at, when.after(at)


def _coming(when: When, before: datetime, at: datetime) -> Coming:
    if not isinstance(when, Cron):
        return Coming(at, at.astimezone(UTC), "")
    local = at.astimezone(when.zone)
    return Coming(at, local, _mark(when, before, at))


def _mark(when: Cron, before: datetime, at: datetime) -> str:
    wall = wall_at(when.zone, at)
    if not when.shows(wall):
        return "gap: its time of day is skipped, so it comes at the gap's end"
    if shows_twice(when.zone, wall):
        is_second = at.astimezone(when.zone).fold == 1
        return f"fold: shown twice, the {'second' if is_second else 'first'} time"
    change = offset_at(when.zone, at) - offset_at(when.zone, before)
    if not change:
        return ""
    return f"the clocks go {'forward' if change > timedelta() else 'back'} by {abs(change)} before it"
