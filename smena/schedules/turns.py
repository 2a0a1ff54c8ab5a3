"""Take the scheduler's turns at the table: each is one transaction, under the leader's term.

The fence is the last statement before each commit (guarantee 3): what a former leader still decides is rolled back,
`TermLost` says so, and its successor decides it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Protocol

import sqlalchemy as sa

from smena.book import Registry
from smena.records import schedules, ticks
from smena.records.ticks import Tick
from smena.schedules.deciding import decide, release
from smena.schedules.errands import errands_of, start
from smena.schedules.keeping import keep, wanted_of
from smena.store import terms
from smena.store.database import Database
from smena.store.terms import Term
from smena.telemetry import events
from smena.timetable.errand import AT


class Leading(Protocol):
    """Who leads, as this process knows by its own monotonic clock."""

    @property
    def lease_name(self) -> str:
        """The lease that the fence looks at."""

    def term(self) -> int | None:
        """Return the term under which this process leads now; None if it does not."""


class Turns:
    """The schedules' tables, for the one who leads. Raises `TermLost`, `DatabaseLost`, `DatabaseBusy`."""

    def __init__(self, database: Database, lease_name: str, *, late_s: float, forgotten_s: float) -> None:
        self._database = database
        self._lease_name = lease_name
        self._late_s = late_s
        self._forgotten_s = forgotten_s

    def declare(self, registry: Registry, term: int) -> list[str]:
        """Bring the rows to what the loaded books declare, and start errands; return the names of those retired."""
        wanted = wanted_of(registry)
        with self._under(term) as connection:
            for one in wanted:
                keep(connection, one)
            begun = [tick for errand in errands_of(registry) if (tick := start(connection, errand)) is not None]
            books, names = [book.name for book in registry.books], [one.name for one in wanted]
            retired = schedules.retire(connection, books, names)
        _tell(begun, AT)
        return retired

    def clock(self) -> datetime:
        """Return the database's time: it decides what is due."""
        with self._database.transaction() as connection:
            return schedules.clock(connection)

    def due(self) -> Sequence[str]:
        """Return the schedules that have a tick that is due, or one that waits."""
        with self._database.transaction() as connection:
            return list(dict.fromkeys([*schedules.due(connection), *ticks.with_waiting(connection)]))

    def until_next_s(self) -> float | None:
        """Return the seconds to the next tick, or None when none comes."""
        with self._database.transaction() as connection:
            return schedules.until_next_s(connection)

    def take(self, name: str, term: int) -> Sequence[Tick]:
        """Decide what is due of one schedule; return what became of it."""
        with self._under(term) as connection:
            kept = schedules.lock(connection, name)
            if kept is None or schedules.was_away_long(connection, name):
                ticks.drop_waiting(connection, name, "removed")
                return []
            if kept.paused_at is not None or kept.removed_at is not None:
                return []  # what waits goes on when it is resumed, or declared again
            waited = release(connection, kept)
            told = [] if waited is None else [waited]
            now = schedules.clock(connection)
            told += decide(connection, kept, now, self._late_s)
        _tell(told, now)
        return told

    def close_dead(self, term: int) -> int:
        """Note the end of jobs that died, so that they hold up nothing; return how many."""
        with self._under(term) as connection:
            return ticks.close_dead(connection, self._forgotten_s)

    @contextmanager
    def _under(self, term: int) -> Iterator[sa.Connection]:
        with self._database.transaction() as connection:
            yield connection
            terms.fence(connection, Term(self._lease_name, "", term))


def _tell(told: Sequence[Tick], now: datetime) -> None:
    """Tell of what became of ticks."""
    for tick in told:
        if tick.state == "fired":
            late_s = round(max(0.0, (now - tick.at).total_seconds()), 3)
            events.emit(
                events.TICK_FIRED,
                schedule=tick.schedule,
                at=tick.at.isoformat(),
                why=tick.why,
                late_s=late_s,
                job=tick.job_id,
            )
        else:
            event = events.TICK_SKIPPED if tick.state == "skipped" else events.TICK_WAITS
            last = tick.until or tick.at
            events.emit(
                event,
                schedule=tick.schedule,
                at=tick.at.isoformat(),
                why=tick.why,
                until=last.isoformat(),
                count=tick.count,
            )
