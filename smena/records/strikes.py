"""Keep who ran where when a process died (guarantee 4): lives, starts and strikes.

A worker process has a *life*: a row, and an advisory lock that its own session holds, so that anybody sees at once
that it is gone. Whoever reaps it buries it: the strikes of those that ran are written, its starts and its row go, in
one transaction. A life without lock and still in the table is *unburied*: a death that nobody has told of yet.

A *start* is written before a redelivered job runs and removed when it ends. The starts of a life that nobody buries
(its supervisor died with it) become its strikes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import psycopg
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from smena.records.asked import PAIRS, Attempt, is_asked, pairs
from smena.records.pruning import delete_some, older_than
from smena.records.strike import Start, Strike
from smena.store.database import Database
from smena.store.escapes import storable
from smena.store.tables import lives, starts, strikes

_NO_TABLES: Final = (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName)
_LONGEST: Final = {"lines": 8_192, "stack": 4_096}
_LONGEST_NAME: Final = 1_024


@dataclass(frozen=True, slots=True)
class Found:
    """What is known of some attempts: the strikes held against each, the newest last; and who died unburied."""

    strikes: Mapping[Attempt, Sequence[Strike]] = field(default_factory=dict)
    unburied: frozenset[str] = frozenset()


# Written by the one who reaped the process; it may come after another took the life for lost, and knows better.
_INSERT: Final = pg.insert(strikes)
_KNOWN_BETTER: Final = ("why", "beside", "how", "peak_mib", "ran_s", "lines", "stack")
_WRITE: Final = _INSERT.on_conflict_do_update(
    index_elements=["job_id", "attempt", "life"],
    set_={name: _INSERT.excluded[name] for name in _KNOWN_BETTER},
    where=strikes.c.why == "lost",
)
_FIND: Final = (
    sa.select(strikes).join(PAIRS, is_asked(strikes)).where(strikes.c.cleared_at.is_(None)).order_by("struck_at")
)
# Shared, and to the end of the statement's transaction only: those who ask do not hinder each other.
_IS_GONE: Final = sa.func.pg_try_advisory_xact_lock_shared(
    sa.func.hashtextextended(sa.literal("smena.life.", sa.Text).concat(lives.c.life), 0)
)
_UNBURIED: Final = sa.select(lives.c.life).where(_IS_GONE)
_BEGIN: Final = pg.insert(starts).on_conflict_do_nothing()
_END: Final = sa.delete(starts).where(starts.c.life == sa.bindparam("of"), is_asked(starts))
_CLEAR: Final = (
    sa.update(strikes).where(is_asked(strikes), strikes.c.cleared_at.is_(None)).values(cleared_at=sa.func.now())
)


def lock_name(life: str) -> str:
    """Return the text whose hash is the advisory lock that a living process holds."""
    return f"smena.life.{life}"


class Strikes:
    """The tables `strikes`, `starts` and `lives`; safe from all threads. Raises `DatabaseLost` and `DatabaseBusy`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def bury(self, life: str, found: Sequence[Strike] = ()) -> None:
        """Write what a dead process leaves behind; without strikes it ended in order. Twice is once."""
        try:
            with self._database.transaction() as connection:
                if found:
                    connection.execute(_WRITE, [_row(strike) for strike in found])
                connection.execute(sa.delete(starts).where(starts.c.life == life))
                connection.execute(sa.delete(lives).where(lives.c.life == life))
        except sa.exc.ProgrammingError as error:
            if found or not isinstance(error.orig, _NO_TABLES):
                raise  # else no process has a life there: it was refused for want of `smena db upgrade`

    def find(self, attempts: Sequence[Attempt]) -> Found:
        """Return the strikes that are held against these attempts, and the processes that died unburied."""
        with self._database.transaction() as connection:
            # First the dead: a burial between the two statements then shows in the second.
            unburied = frozenset(connection.scalars(_UNBURIED))
            held: dict[Attempt, list[Strike]] = {}
            for row in connection.execute(_FIND, pairs(attempts)).mappings():
                held.setdefault((row["job_id"], row["attempt"]), []).append(Strike(**row))
        return Found(held, unburied)

    def give_up(self, unburied: Collection[str]) -> int:
        """Take the starts of processes that nobody buries for strikes; return how many."""
        with self._database.transaction() as connection:
            gone = sa.select(lives.c.life).where(lives.c.life.in_(unburied), _IS_GONE).with_for_update(skip_locked=True)
            found = list(connection.scalars(gone))
            if not found:
                return 0
            count = len(connection.execute(_from_starts(found)).all())
            connection.execute(sa.delete(starts).where(starts.c.life.in_(found)))
            connection.execute(sa.delete(lives).where(lives.c.life.in_(found)))
            return count

    def begin(self, begun: Sequence[Start]) -> None:
        """Note that these jobs are about to run."""
        if begun:
            with self._database.transaction() as connection:
                connection.execute(_BEGIN, [_start_row(start) for start in begun])

    def end(self, life: str, attempts: Sequence[Attempt]) -> None:
        """Forget that they were begun by this process."""
        if attempts:
            with self._database.transaction() as connection:
                connection.execute(_END, pairs(attempts) | {"of": life})

    def clear(self, attempts: Sequence[Attempt]) -> None:
        """Hold nothing against these attempts any more; the strikes stay to be read."""
        if attempts:
            with self._database.transaction() as connection:
                connection.execute(_CLEAR, pairs(attempts))

    def of_job(self, job_id: str) -> tuple[list[Strike], list[Start]]:
        """Return all strikes and starts of a job, the oldest first."""
        with self._database.transaction() as connection:
            held = connection.execute(_of(strikes, job_id).order_by(strikes.c.struck_at)).mappings()
            begun = connection.execute(_of(starts, job_id).order_by(starts.c.started_at)).mappings()
            return [Strike(**row) for row in held], [Start(**row) for row in begun]

    def prune(self, keep_s: float, limit: int = 1000) -> int:
        """Delete strikes older than that, and starts and lives as old whose process is gone, at most ``limit`` each."""
        with self._database.transaction() as connection:
            dead = ~sa.exists().where(lives.c.life == starts.c.life)
            old_start = sa.and_(older_than(starts.c.started_at, keep_s), dead)
            old_life = sa.and_(older_than(lives.c.born_at, keep_s), _IS_GONE)
            return (
                delete_some(connection, strikes, older_than(strikes.c.struck_at, keep_s), limit)
                + delete_some(connection, starts, old_start, limit)
                + delete_some(connection, lives, old_life, limit)
            )


def _from_starts(gone: Sequence[str]) -> sa.Executable:
    beside = sa.func.count().over(partition_by=starts.c.life)
    columns = ["job_id", "attempt", "life", "actor", "worker", "host"]
    lost = sa.select(
        *(starts.c[name] for name in columns), sa.literal("lost"), sa.literal("unknown"), beside, _ran_s()
    ).where(starts.c.life.in_(gone))
    insert = pg.insert(strikes).from_select([*columns, "why", "how", "beside", "ran_s"], lost)
    return insert.on_conflict_do_nothing().returning(strikes.c.job_id)


def _ran_s() -> sa.ColumnElement[float]:
    return sa.cast(sa.extract("epoch", sa.func.now() - starts.c.started_at), sa.Float)


def _of(table: sa.Table, job_id: str) -> sa.Select[Any]:
    return sa.select(table).where(table.c.job_id == storable(job_id, _LONGEST_NAME))


def _row(strike: Strike) -> dict[str, Any]:
    row = {name: _tamed(name, value) for name, value in asdict(strike).items()}
    del row["struck_at"], row["cleared_at"]
    return row


def _start_row(start: Start) -> dict[str, Any]:
    row = {name: _tamed(name, value) for name, value in asdict(start).items()}
    del row["started_at"]
    return row


def _tamed(name: str, value: Any) -> Any:
    return storable(value, _LONGEST.get(name, _LONGEST_NAME)) if isinstance(value, str) else value
