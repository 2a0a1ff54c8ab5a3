"""Bring a schedule's row to what is wanted now.

A new one begins when it is first seen; one whose rule changed begins anew; any other goes on where it was, so a deploy
neither skips nor repeats a tick. Its next time is computed again each time: rules of time zones change too.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import sqlalchemy as sa

from smena.book import Actor, Registry
from smena.errors import Misdeclared, Unsendable
from smena.outbox import columns
from smena.records import schedules
from smena.records.schedules import Wanted
from smena.schedules.deciding import job_of
from smena.timetable import read
from smena.timetable.errand import Errand

_SOME_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""All times are written in as many letters."""


def wanted_of(registry: Registry) -> list[Wanted]:
    """Return the schedules that the loaded books declare; each is named as its actor."""
    return [declared for actor in registry.actors() if (declared := _declared(actor)) is not None]


def check_declared(registry: Registry) -> None:
    """Raise `Misdeclared`, with the place, for a declared schedule whose jobs could not be sent."""
    for actor in registry.actors():
        try:
            if (wanted := _declared(actor)) is not None:
                _check_job(wanted)
        except Unsendable as refusal:
            told = "what its schedule gives cannot be sent"
            raise Misdeclared(f"{told}: {refusal.code}", place=actor.place, **refusal.facts) from refusal


def keep(connection: sa.Connection, wanted: Wanted) -> None:
    """Write a schedule or change it.

    Raises `Misdeclared` for a rule that cannot be read, `Unsendable` for a job that the outbox would not take.
    """
    when = read(wanted.spec)
    _check_job(wanted)
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


def _check_job(wanted: Wanted) -> None:
    """Refuse here what each tick would be refused for, again and again, where only a log tells."""
    try:
        columns.of([job_of(wanted, _SOME_TIME)], 0, None)
    except Unsendable as refusal:
        facts = {"schedule": wanted.name} | {name: fact for name, fact in refusal.facts.items() if name != "job"}
        raise type(refusal)(refusal.detail, **facts) from refusal


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
