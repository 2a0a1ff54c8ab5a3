"""Do an errand once in the fleet's life: `book.once_per_deploy`.

The leader writes its tick's row, unique by the key for ever, with its job's outbox row, under its term. The job goes
the way of any job until it is done. Only its name starts it again (`smena once KEY`).

One that asks for a session takes effect with a `once` key: as a whole or not at all. One that works piece by piece
keeps where it is with `leave_off` in each piece's own transaction, and goes on from `left_off` after a crash.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from smena.book import Actor, Registry
from smena.errors import Refused
from smena.job import Job
from smena.records import once_keys, schedules, ticks
from smena.records.schedules import Kept, Wanted
from smena.records.ticks import KeptTick, Tick
from smena.schedules.deciding import fire
from smena.store.database import Database
from smena.timetable.errand import AT, Errand


class NoSuchErrand(Refused):
    """No loaded book has work of this key that is done once."""

    code = "no_such_errand"


class StillRuns(Refused):
    """The errand's last run has not ended."""

    code = "still_runs"


@dataclass(frozen=True, slots=True)
class Declared:
    """An errand of a loaded book."""

    key: str
    actor: Actor[..., Any, ...]

    @property
    def name(self) -> str:
        """Return what its ticks are filed under."""
        return Errand(self.key).name


def errands_of(registry: Registry) -> list[Declared]:
    """Return the errands that the loaded books declare."""
    told = [(actor.schedule.when, actor) for actor in registry.actors() if actor.schedule is not None]
    return [Declared(when.key, actor) for when, actor in told if isinstance(when, Errand)]


def start(connection: sa.Connection, errand: Declared) -> Tick | None:
    """Start an errand that was never started; None where it was."""
    return fire(connection, _kept(errand), AT, "on_time")


def left_off(within: Session | sa.Connection, job: Job) -> Any:
    """Return what the last committed `leave_off` of this job's errand kept, or None."""
    name, at = _tick_of(job)
    return once_keys.kept_value(within, name, at)


def leave_off(within: Session | sa.Connection, job: Job, value: Any) -> None:
    """Keep, in the transaction of a piece of work, how far it has come; ``value`` is JSON."""
    name, at = _tick_of(job)
    once_keys.keep_value(within, name, at, job.id, value)


class Errands:
    """What an operator does with errands; each call is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def runs(self, errand: Declared) -> list[KeptTick]:
        """Return its runs, the newest first."""
        with self._database.transaction() as connection:
            return ticks.history(connection, errand.name, 100)

    def run(self, errand: Declared) -> Tick:
        """Run it, also again; raises `StillRuns`."""
        with self._database.transaction() as connection:
            if (first := start(connection, errand)) is not None:
                return first
            ticks.hold(connection, errand.name, AT)  # it has no schedule's row by which those who decide would wait
            is_busy, _ = ticks.standing(connection, errand.name)
            if is_busy:
                raise StillRuns(errand=errand.key)
            once_keys.forget(connection, errand.actor.name, errand.key)
            again = fire(connection, _kept(errand), schedules.clock(connection), "by_hand")
            if again is None:
                raise StillRuns(errand=errand.key)
            return again


def _kept(errand: Declared) -> Kept:
    wanted = Wanted(name=errand.name, source="book", spec="", actor=errand.actor.name, queue=errand.actor.queue)
    return Kept(wanted, AT, None, None, None)


def _tick_of(job: Job) -> tuple[str, str]:
    tick = job.tick
    if tick is None:
        raise Refused("only the job of a schedule or an errand can leave off and go on", job=job.id)
    return tick.schedule, tick.at.isoformat()
