"""One schedule of an hourly job, and what became of its ticks."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

import smena
from smena.book import Registry
from smena.records import schedules, ticks
from smena.records.ticks import KeptTick
from smena.schedules.turns import Turns
from smena.store import terms
from smena.store.database import Database
from smena.store.tables import schedules as schedules_table
from smena.store.tables import ticks as ticks_table
from smena.timetable import When, cron

LEASE = "leader:scheduler"
HOUR = cron("30 * * * *")
"""Set for each test to half an hour from then, so that no tick is due while it looks."""


class Leads:
    """A lease that was taken from the table, as leadership is."""

    def __init__(self, database: Database) -> None:
        with database.transaction() as connection:
            connection.execute(sa.text("UPDATE smena.leases SET expires_at = now() - interval '1 s'"))
            taken = terms.take(connection, LEASE, "boot", 60)
        assert taken is not None
        self.number = taken.number

    def term(self) -> int | None:
        return self.number


def book_of(when: When | smena.Schedule, **policies: Any) -> Registry:
    book = smena.Book("house")

    @book.actor(queue="house", schedule=when, **policies)
    def sweep() -> None: ...

    return Registry([book])


def rewind(database: Database, hours: float, name: str = "house.sweep") -> tuple[datetime, datetime]:
    """Let so much time have passed since a schedule was last decided; return the time between which ticks are due."""
    with database.transaction() as connection:
        moved = {"since": schedules_table.c.since - timedelta(hours=hours), "next_at": sa.func.clock_timestamp()}
        connection.execute(sa.update(schedules_table).where(schedules_table.c.name == name).values(**moved))
        kept = schedules.lock(connection, name)
        assert kept is not None
        return kept.since, schedules.clock(connection)


def history(database: Database, name: str = "house.sweep") -> list[KeptTick]:
    with database.transaction() as connection:
        return ticks.history(connection, name, 1000)[::-1]


def fired(database: Database, name: str = "house.sweep") -> list[datetime]:
    return [one.tick.at for one in history(database, name) if one.tick.state == "fired"]


def jobs(database: Database) -> list[str]:
    with database.transaction() as connection:
        return list(connection.scalars(sa.text("SELECT id FROM smena.outbox ORDER BY seq")))


def late(database: Database, turns: Turns, term: int) -> list[str]:
    """Let an hour pass and decide; return what became of the tick."""
    away = timedelta(hours=1 + len(history(database)))  # another each time, so that no two rows meet
    with database.transaction() as connection:
        connection.execute(sa.update(ticks_table).values(at=ticks_table.c.at - away))
    rewind(database, 1)
    return [f"{tick.state} {tick.why}" for tick in turns.take("house.sweep", term)]
