"""Fire, pause and resume by hand: for operators, and for a clock outside such as a Kubernetes CronJob."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa

from smena.book import Actor, Registry, RemoteActor
from smena.book.schedule import Schedule
from smena.errors import Refused
from smena.records import schedules, ticks
from smena.records.schedules import Kept
from smena.records.ticks import KeptTick, Tick
from smena.schedules import added
from smena.schedules.deciding import come, come_early, fire, pass_over
from smena.schedules.keeping import keep, wanted_of
from smena.store.database import Database
from smena.timetable import When, read
from smena.timetable.misfire import plan

EARLY: Final = timedelta(seconds=10)
"""A tick is fired by hand so long before its time, at most; and by less than half of the time to the next one."""


class NoSuchSchedule(Refused):
    """There is no schedule of this name."""

    code = "no_such_schedule"


class Hand:
    """What an operator does with schedules; each call is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def run(self, name: str) -> Tick:
        """Fire now, beside the schedule's own ticks, whatever runs."""
        with self._database.transaction() as connection:
            kept = _locked(connection, name)
            tick = fire(connection, kept, schedules.clock(connection), "by_hand")
            if tick is None:
                raise Refused("a tick of this very moment was decided", schedule=name)
            return tick

    def tick_now(self, name: str, within_s: float) -> Tick | None:
        """Decide the newest tick that is due, no older than ``within_s``; None if it is decided, or there is none.

        The tick's row is that which the scheduler writes, so whoever comes second finds it and fires nothing. The clock
        outside may be ahead of the database's by `EARLY`; a tick that has yet to come is fired, or left to its time.
        One that rests, or is not declared any more, has none.
        """
        with self._database.transaction() as connection:
            kept = _locked(connection, name)
            if kept.paused_at is not None or kept.removed_at is not None:
                return None
            when, now = read(kept.wanted.spec), schedules.clock(connection)
            if (soon := _soon(when, now)) is not None:
                return come_early(connection, kept, soon)
            due = plan(when, now - timedelta(seconds=within_s), now, timedelta(), "one").fire
            return come(connection, kept, replace(due[0], late=False)) if due else None

    def declare(self, name: str, registry: Registry) -> None:
        """Write the schedule of that name as a loaded book declares it."""
        wanted = [one for one in wanted_of(registry) if one.name == name]
        if not wanted:
            raise NoSuchSchedule(schedule=name)
        with self._database.transaction() as connection:
            keep(connection, wanted[0])

    def pause(self, name: str) -> None:
        """Let a schedule rest."""
        with self._database.transaction() as connection:
            _locked(connection, name)
            schedules.pause(connection, name)

    def resume(self, name: str) -> datetime | None:
        """Let a schedule go on from now; what came meanwhile is passed over. Return its next time."""
        with self._database.transaction() as connection:
            kept = _locked(connection, name)
            if kept.paused_at is None:
                return kept.next_at
            when, now = read(kept.wanted.spec), schedules.clock(connection)
            span = plan(when, kept.since, now, timedelta(), "skip").skipped
            if span is not None:
                list(pass_over(connection, kept, when, span, "paused"))
            schedules.resume(connection, name)
            schedules.decided(connection, name, max(now, kept.since), when.after(max(now, kept.since)))
            return when.after(now)

    def one(self, name: str) -> Kept:
        """Return a schedule."""
        with self._database.transaction() as connection:
            return _locked(connection, name)

    def history(self, name: str, limit: int) -> list[KeptTick]:
        """Return the newest ticks of a schedule, also of one that was removed; the newest first.

        Raises `NoSuchSchedule` where there is neither a tick nor a schedule of that name.
        """
        with self._database.transaction() as connection:
            found = ticks.history(connection, name, limit)
            if not found and name not in {kept.wanted.name for kept in schedules.all_kept(connection)}:
                raise NoSuchSchedule(schedule=name)
            return found

    def add(self, name: str, actor: Actor[..., Any] | RemoteActor, schedule: Schedule) -> None:
        """Add a schedule, or change one that was added."""
        with self._database.transaction() as connection:
            added.add(connection, name, actor, schedule)

    def remove(self, name: str) -> None:
        """Remove a schedule."""
        with self._database.transaction() as connection:
            if not added.remove(connection, name):
                raise NoSuchSchedule(schedule=name)

    def all(self) -> list[Kept]:
        """Return all schedules."""
        with self._database.transaction() as connection:
            return schedules.all_kept(connection)


def _soon(when: When, now: datetime) -> datetime | None:
    """Return the next tick if it is so near that a clock which is a bit ahead means this one."""
    at = when.after(now)
    following = None if at is None else when.after(at)
    early = EARLY if at is None or following is None else min(EARLY, (following - at) / 2)
    return at if at is not None and at - now < early else None


def _locked(connection: sa.Connection, name: str) -> Kept:
    kept = schedules.lock(connection, name)
    if kept is None:
        raise NoSuchSchedule(schedule=name)
    return kept
