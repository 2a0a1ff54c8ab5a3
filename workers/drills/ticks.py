"""The drills' schedules, and what the database says of their ticks.

Each tick's job writes one row into `drill.ticks`, with the planned time that it was told. What is judged is that: every
tick that was due is accounted for in one row of `smena.ticks`, and each that fired took effect once.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from types import TracebackType
from typing import Final, Self

import sqlalchemy as sa

from smena.book.schedule import Schedule
from smena.records import schedules, ticks
from smena.records.schedules import Kept
from smena.records.ticks import KeptTick
from smena.schedules.added import add
from smena.schedules.by_hand import Hand
from smena.settings import load
from smena.store.database import Database
from smena.store.tables import schedules as table
from smena.timetable import read
from smena.timetable.when import between
from workers.drills import book
from workers.drills.ground import Ground

_EFFECTS: Final = sa.text("SELECT at FROM drill.ticks WHERE schedule = :name")
_FIRED: Final = sa.text("SELECT count(*) FROM smena.ticks WHERE schedule = ANY (:names) AND state = 'fired'")
_RUNNING: Final = sa.text(f"{_FIRED.text} AND ended_at IS NULL")
_MOST: Final = 100_000
_PATIENCE_S: Final = 20
"""A scheduler that catches up holds its schedule for longer than the fleet's own statements wait."""


class Ticks:
    """Some schedules for one run; they are removed with the block."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        environ = {**ground.environ, "SMENA_DATABASE_LOCK_TIMEOUT_S": str(_PATIENCE_S)}
        self._database = Database(load(env=environ).database, "drill-ticks", 2)
        self._hand = Hand(self._database)
        self._begun: dict[str, datetime] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for name in self._begun:
            self._hand.remove(name)
        self._database.close()

    @property
    def names(self) -> list[str]:
        """Return the schedules' names."""
        return list(self._begun)

    def add(self, label: str, schedule: Schedule) -> str:
        """Add a schedule of the drill's tick job; return its name."""
        name = f"{self._ground.run}.{label}"
        with self._database.transaction() as connection:
            add(connection, name, book.tick, schedule)
        self._begun[name] = self.kept(name).since
        return name

    def kept(self, name: str) -> Kept:
        """Return a schedule as it stands."""
        return self._hand.one(name)

    def fired(self) -> int:
        """Return how many ticks of all have fired."""
        with self._database.transaction() as connection:
            return int(connection.execute(_FIRED, {"names": self.names}).scalar_one())

    def rows(self, name: str) -> list[KeptTick]:
        """Return the rows of a schedule's ticks."""
        with self._database.transaction() as connection:
            return ticks.history(connection, name, _MOST)

    def let_pass(self, hours: float) -> int:
        """Let so much time have passed since all was decided; return how many ticks are due by that."""
        due = 0
        for name in self._begun:
            with self._database.transaction() as connection:
                earlier = {"since": table.c.since - timedelta(hours=hours), "next_at": sa.func.clock_timestamp()}
                connection.execute(sa.update(table).where(table.c.name == name).values(**earlier))
                now = schedules.clock(connection)
            kept = self.kept(name)
            self._begun[name] = kept.since
            due += sum(1 for _ in between(read(kept.wanted.spec), kept.since, now))
        return due

    def settle(self) -> None:
        """Let no tick come any more, and wait until the jobs of all have ended."""
        for name in self._begun:
            self._hand.pause(name)
        self._ground.until(self._all_ended, "the jobs of all ticks to end")

    def judge(self) -> None:
        """Have it judged that every tick was accounted for, and took effect once."""
        skipped = doubled = 0
        for name in self._begun:
            due, rows, effects = self._due(name), self.rows(name), self._effects(name)
            fired = {row.tick.at for row in rows if row.tick.state == "fired"}
            told = fired | {at for at in due for row in rows if _tells_of(row, at)}
            skipped += len(set(due) - told) + len(fired - effects.keys())
            doubled += sum(count - 1 for count in effects.values()) + len(effects.keys() - fired)
        self._ground.bar("ticks skipped", skipped, 0)
        self._ground.bar("ticks doubled", doubled, 0)

    def _due(self, name: str) -> list[datetime]:
        kept = self.kept(name)
        return list(between(read(kept.wanted.spec), self._begun[name], kept.since))

    def _effects(self, name: str) -> Counter[datetime]:
        with self._database.transaction() as connection:
            return Counter(connection.scalars(_EFFECTS, {"name": name}))

    def _all_ended(self) -> bool:
        with self._database.transaction() as connection:
            return not connection.execute(_RUNNING, {"names": self.names}).scalar_one()


def _tells_of(row: KeptTick, at: datetime) -> bool:
    return row.tick.at <= at <= (row.tick.until or row.tick.at)
