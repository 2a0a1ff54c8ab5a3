"""Decide what becomes of a schedule's ticks, and write it: tick row and outbox row in the caller's transaction.

The schedule's row is locked first, so of two who decide at once the second finds that all is decided; and a tick's row
is unique, so even without that lock a tick fires once.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import sqlalchemy as sa

from smena import outbox
from smena.book.address import new_job
from smena.job import Job
from smena.job import Tick as Moment
from smena.records import schedules, ticks
from smena.records.schedules import Kept, Wanted
from smena.records.ticks import Tick, Why
from smena.timetable import When, read
from smena.timetable.misfire import Firing, Span, plan
from smena.timetable.overlap import fate


def decide(connection: sa.Connection, kept: Kept, now: datetime, grace_s: float) -> list[Tick]:
    """Decide all ticks of a locked schedule up to ``now``; return what became of them, in order."""
    if now <= kept.since:  # the database's clock went back: those ticks are decided
        return []
    wanted = kept.wanted
    when = read(wanted.spec)
    planned = plan(when, kept.since, now, timedelta(seconds=grace_s), wanted.misfire, wanted.misfire_cap)
    told = [] if planned.skipped is None else list(pass_over(connection, kept, when, planned.skipped, "missed"))
    told += [tick for firing in planned.fire if (tick := come(connection, kept, firing)) is not None]
    schedules.decided(connection, wanted.name, now, when.after(now))
    return told


def come(connection: sa.Connection, kept: Kept, firing: Firing) -> Tick | None:
    """Let a tick fire, wait or be passed over, as its overlap policy says."""
    wanted = kept.wanted
    is_busy, waiting = ticks.standing(connection, wanted.name)
    fated = fate(wanted.overlap, is_busy=is_busy, waiting=waiting)
    if fated == "fire":
        return fire(connection, kept, firing.at, "caught_up" if firing.late else "on_time")
    if fated == "wait":
        tick = Tick(schedule=wanted.name, at=firing.at, state="waiting", why="busy")
    else:
        why: Why = "queue_full" if wanted.overlap == "queue" else "busy"
        tick = Tick(schedule=wanted.name, at=firing.at, state="skipped", why=why)
    return tick if ticks.write(connection, tick) else None


def release(connection: sa.Connection, kept: Kept) -> Tick | None:
    """Fire the first tick of a locked schedule that waits, if the job before it has ended."""
    name = kept.wanted.name
    is_busy, _ = ticks.standing(connection, name)
    at = None if is_busy else ticks.oldest_waiting(connection, name)
    if at is None:
        return None
    job = job_of(kept.wanted, at)
    if not ticks.fire_waiting(connection, name, at, job.id):
        return None
    outbox.add(connection, job)
    return Tick(schedule=name, at=at, state="fired", why="after_wait", job_id=job.id)


def come_early(connection: sa.Connection, kept: Kept, at: datetime) -> Tick | None:
    """Let a tick fire shortly before its time; what does not fire now has its time yet, and nothing is written."""
    is_busy, waiting = ticks.standing(connection, kept.wanted.name)
    is_free = fate(kept.wanted.overlap, is_busy=is_busy, waiting=waiting) == "fire"
    return fire(connection, kept, at, "on_time") if is_free else None


def fire(connection: sa.Connection, kept: Kept, at: datetime, why: Why) -> Tick | None:
    """Fire a tick whatever else runs; None where that tick is decided already."""
    job = job_of(kept.wanted, at)
    tick = Tick(schedule=kept.wanted.name, at=at, state="fired", why=why, job_id=job.id)
    if not ticks.write(connection, tick):
        return None
    outbox.add(connection, job)
    return tick


def pass_over(connection: sa.Connection, kept: Kept, when: When, span: Span, why: Why) -> Iterator[Tick]:
    """Write that ticks do not fire: one row for all, but for those at its head that are decided already."""
    first, count = span.first, span.count
    while first <= span.last:
        until = None if first == span.last else span.last
        tick = Tick(schedule=kept.wanted.name, at=first, state="skipped", why=why, until=until, count=count)
        if ticks.write(connection, tick):
            yield tick
            return
        following = when.after(first)
        if following is None:
            return
        first, count = following, max(1, count - 1)


def job_of(wanted: Wanted, at: datetime) -> Job:
    """Return the job of a tick, which knows what it is for (`Job.tick`)."""
    job = new_job(wanted.actor, wanted.queue, tuple(wanted.args), dict(wanted.kwargs))
    return job.of_tick(Moment(wanted.name, at))
