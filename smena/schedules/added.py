"""Add schedules at run time and remove them, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.orm import Session

from smena.book import Actor, RemoteActor, check_actor_name
from smena.book.schedule import Schedule
from smena.errors import Misdeclared
from smena.records import schedules, ticks
from smena.records.schedules import Wanted
from smena.schedules.keeping import keep
from smena.timetable import When

_NOTHING: Final[Mapping[str, Any]] = {}


def add(
    place: Session | sa.Connection,
    name: str,
    actor: Actor[..., Any, ...] | RemoteActor,
    schedule: When | Schedule,
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] = _NOTHING,
) -> None:
    """Let an actor run by itself from the commit on; a schedule of that name is changed.

    ``args`` and ``kwargs`` go with a plain rule; a `Schedule` holds its own. Raises `Misdeclared` for a name that a
    book's own schedule has, `InvalidArguments` where the actor does not take the arguments, `TooLarge` or another
    `Unsendable` where a job with them could not be sent.
    """
    told = schedule if isinstance(schedule, Schedule) else Schedule(schedule, args, kwargs)
    job = actor.message(*told.args, **told.kwargs)
    if job.partition_key is not None:
        raise Misdeclared("an ordered actor has no schedule: let a scheduled one send to it", actor=job.actor)
    wanted = Wanted(
        name=check_actor_name(name),
        source="added",
        spec=told.when.spec,
        actor=job.actor,
        queue=job.queue,
        args=job.args,
        kwargs=job.kwargs,
        misfire=told.misfire,
        misfire_cap=told.misfire_cap,
        overlap=told.overlap,
    )
    connection = _connection(place)
    kept = schedules.lock(connection, name)
    if kept is not None and kept.wanted.source == "book":
        raise Misdeclared("a book declares a schedule of this name", schedule=name)
    keep(connection, wanted)


def remove(place: Session | sa.Connection, name: str) -> bool:
    """Remove a schedule, and what waits of it, from the commit on; say whether it was there.

    One that a book declares comes back.
    """
    connection = _connection(place)
    if schedules.lock(connection, name) is not None:
        ticks.drop_waiting(connection, name, "removed")
    return schedules.remove(connection, name)


def _connection(place: Session | sa.Connection) -> sa.Connection:
    return place.connection() if isinstance(place, Session) else place
