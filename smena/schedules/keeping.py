"""Bring a schedule's row to what is wanted now.

A new one begins when it is first seen; one whose rule changed begins anew; any other goes on where it was, so a deploy
neither skips nor repeats a tick. Its next time is computed again each time: rules of time zones change too.
"""

from __future__ import annotations

import sqlalchemy as sa

from smena.book import Actor, Registry
from smena.records import schedules
from smena.records.schedules import Wanted
from smena.timetable import read
from smena.timetable.errand import Errand


def wanted_of(registry: Registry) -> list[Wanted]:
    """Return the schedules that the loaded books declare; each is named as its actor."""
    return [declared for actor in registry.actors() if (declared := _declared(actor)) is not None]


def keep(connection: sa.Connection, wanted: Wanted) -> None:
    """Write a schedule or change it; raises `Misdeclared` for a rule that cannot be read."""
    when = read(wanted.spec)
    now = schedules.clock(connection)
    if schedules.begin(connection, wanted, now):
        schedules.decided(connection, wanted.name, now, when.after(now))
        return
    kept = schedules.lock(connection, wanted.name)
    if kept is None:  # removed at this moment: the next look writes it
        return
    is_new = kept.wanted.spec != wanted.spec or schedules.was_away_long(connection, wanted.name)
    since = now if is_new else kept.since
    schedules.change(connection, wanted, since)
    schedules.decided(connection, wanted.name, since, when.after(since))


def _declared(actor: Actor[..., object, ...]) -> Wanted | None:
    told = actor.schedule
    if told is None or isinstance(told.when, Errand):
        return None
    return Wanted(
        name=actor.name,
        source="book",
        spec=told.when.spec,
        actor=actor.name,
        queue=actor.queue,
        args=tuple(told.args),
        kwargs=dict(told.kwargs),
        misfire=told.misfire,
        misfire_cap=told.misfire_cap,
        overlap=told.overlap,
    )
