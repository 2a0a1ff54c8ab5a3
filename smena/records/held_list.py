"""Show an operator the keys that wait, and let them go on.

Nothing here needs a term: it only marks a hold as released, which the partition's owner looks for, and takes away a job
that nobody may run until then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from smena.records.dead_letters import DeadLetter, write
from smena.records.settlements import StoredMessage, row_of
from smena.store.database import Database
from smena.store.tables import key_holds, key_parked, outbox, settlements


@dataclass(frozen=True, slots=True)
class HeldKey:
    """A key that waits: for which job, why, until when (None: until an operator lets it), and how many jobs with it."""

    queue: str
    partition: int
    key: str
    why: str
    reason: str
    job_id: str
    actor: str
    attempt: int
    held_at: datetime
    due_at: datetime | None
    released: bool
    parked: int


@dataclass(frozen=True, slots=True)
class Blocked:
    """A queue with keys that only an operator lets go on, the longest blocked of them, and the jobs behind them."""

    queue: str
    keys: int
    oldest: str
    since: datetime
    waiting: int


@dataclass(frozen=True, slots=True)
class Blocking:
    """The job that blocks a key, as its dead letter would carry it."""

    queue: str
    source: str
    body: bytes
    properties: Mapping[str, Any]


class HeldList:
    """The tables, as an operator sees them. Raises `DatabaseLost` and `DatabaseBusy`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def keys(self, queue: str | None = None, limit: int = 50) -> list[HeldKey]:
        """Return the keys that wait, the longest first."""
        query = _KEYS.limit(limit) if queue is None else _KEYS.where(key_holds.c.queue == queue).limit(limit)
        with self._database.transaction() as connection:
            return [HeldKey(**row._asdict()) for row in connection.execute(query)]

    def count(self) -> int:
        """Return how many keys wait."""
        with self._database.transaction() as connection:
            return connection.execute(sa.select(sa.func.count()).select_from(key_holds)).scalar_one()

    def blocked(self) -> list[Blocked]:
        """Return the queues in which keys are blocked by a dead job, and not let go yet."""
        with self._database.transaction() as connection:
            return [Blocked(**row._asdict()) for row in connection.execute(_BLOCKED_OF_QUEUES)]

    def left(self, queue: str) -> dict[str, int]:
        """Return what PostgreSQL holds of an ordered queue: keys that wait, jobs parked, outbox rows not sent."""
        unsent = outbox.c.state.in_(("pending", "parked"))
        is_ours = outbox.c.queue.startswith(f"{queue}.p", autoescape=True)
        with self._database.transaction() as connection:
            return {
                "held key": _count(connection, key_holds, key_holds.c.queue == queue),
                "parked job": _count(connection, key_parked, key_parked.c.queue == queue),
                "outbox row": _count(connection, outbox, unsent, is_ours),
            }

    def release(self, queue: str, key: str) -> bool:
        """Let a key go on now, with another attempt of its job; False if it does not wait."""
        with self._database.transaction() as connection:
            return connection.execute(_RELEASE, _named(queue, key)).rowcount > 0

    def skip(self, queue: str, key: str, letter_of: Callable[[Blocking], DeadLetter]) -> str | None:
        """Let a blocked key go on without the job that blocks it, which becomes a dead letter; return the job's id.

        None if the key is not blocked: a job that is to come back, or may be running again, is not taken away.
        """
        with self._database.transaction() as connection:
            hold = connection.execute(_BLOCKED, _named(queue, key)).first()
            if hold is None:
                return None
            job = connection.execute(_TAKE, _named(queue, key) | {"job_id_": hold.job_id}).first()
            if job is not None:
                source = hold.letter_routing_key or ""
                letter = letter_of(Blocking(queue, source, bytes(job.body), hold.letter_properties or {}))
                write(connection, letter)
                stored = StoredMessage("", source, bytes(job.body), hold.letter_properties or {}, "dead", queue)
                settled = row_of(hold.job_id, hold.attempt, stored) | {"confirmed_at": sa.func.now()}
                connection.execute(_SETTLE.values(settled))
            connection.execute(_RELEASE, _named(queue, key))
            return str(hold.job_id)


def _count(connection: sa.Connection, table: sa.Table, *conditions: sa.ColumnElement[bool]) -> int:
    return connection.execute(sa.select(sa.func.count()).select_from(table).where(*conditions)).scalar_one()


def _named(queue: str, key: str) -> dict[str, str]:
    return {"queue_": queue, "key_": key}


_PARKED: Final = (
    sa.select(sa.func.count())
    .where(key_parked.c.queue == key_holds.c.queue, key_parked.c.key == key_holds.c.key)
    .scalar_subquery()
    .label("parked")
)
_SHOWN: Final = (
    "queue", "partition", "key", "why", "reason", "job_id", "actor", "attempt", "held_at", "due_at", "released",
)  # fmt: skip
_KEYS: Final = sa.select(*(key_holds.c[name] for name in _SHOWN), _PARKED).order_by(key_holds.c.held_at)
_THE_KEY: Final = sa.and_(key_holds.c.queue == sa.bindparam("queue_"), key_holds.c.key == sa.bindparam("key_"))
_EACH_BLOCKED: Final = (
    sa.select(key_holds.c.queue, key_holds.c.key, key_holds.c.held_at, _PARKED)
    .where(key_holds.c.why == "blocked", sa.not_(key_holds.c.released))
    .subquery()
)
_OLDEST_FIRST: Final = pg.aggregate_order_by(_EACH_BLOCKED.c.key, _EACH_BLOCKED.c.held_at, _EACH_BLOCKED.c.key)
_BLOCKED_OF_QUEUES: Final = (
    sa.select(
        _EACH_BLOCKED.c.queue,
        sa.func.count().label("keys"),
        sa.func.array_agg(_OLDEST_FIRST)[1].label("oldest"),
        sa.func.min(_EACH_BLOCKED.c.held_at).label("since"),
        sa.cast(sa.func.sum(sa.func.greatest(_EACH_BLOCKED.c.parked - 1, 0)), sa.BigInteger).label("waiting"),
    )
    .group_by(_EACH_BLOCKED.c.queue)
    .order_by(_EACH_BLOCKED.c.queue)
)
"""The first row of a blocked key is the job that blocks it."""

_RELEASE: Final = sa.update(key_holds).where(_THE_KEY).values(released=True, due_at=sa.func.now())
_BLOCKED: Final = (
    sa.select(key_holds).where(_THE_KEY, key_holds.c.why == "blocked", sa.not_(key_holds.c.released)).with_for_update()
)
_TAKE: Final = (
    sa.delete(key_parked)
    .where(
        key_parked.c.queue == sa.bindparam("queue_"),
        key_parked.c.key == sa.bindparam("key_"),
        key_parked.c.job_id == sa.bindparam("job_id_"),
    )
    .returning(key_parked.c.body)
)
_SETTLE: Final = pg.insert(settlements).on_conflict_do_nothing(index_elements=["job_id", "attempt"])
