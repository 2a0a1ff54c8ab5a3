"""Write jobs into the outbox, inside the caller's transaction.

One statement for any number of jobs. It also rings the doorbell, but only where a relay sleeps
(`doorbell.py` says how that is known). Nothing here commits.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Final, Protocol, TypeGuard, cast, runtime_checkable

import psycopg
import sqlalchemy as sa
from psycopg.pq import TransactionStatus
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from smena.delay import Delay
from smena.errors import Misused
from smena.job import Job
from smena.outbox import columns
from smena.outbox.doorbell import CHANNEL, SLEEPERS

_TEMPLATE: Final = f"""
WITH added AS (
    INSERT INTO smena.outbox (id, attempt, snoozes, actor, queue, body, properties, ordering_key, due_at)
    SELECT job.id, job.attempt, job.snoozes, job.actor, job.queue, job.body, CAST(job.properties AS json),
           job.ordering_key,
           clock_timestamp() + make_interval(secs => CAST({{delay_s}} AS double precision))
    FROM unnest(CAST({{ids}} AS text[]), CAST({{attempts}} AS int[]), CAST({{snoozes}} AS int[]),
                CAST({{actors}} AS text[]), CAST({{queues}} AS text[]), CAST({{bodies}} AS bytea[]),
                CAST({{properties}} AS text[]), CAST({{ordering_keys}} AS text[]))
        WITH ORDINALITY AS job(id, attempt, snoozes, actor, queue, body, properties, ordering_key, place)
    ORDER BY job.place
)
SELECT pg_notify('{CHANNEL}', '') WHERE NOT pg_try_advisory_xact_lock_shared({SLEEPERS})
"""  # noqa: S608 (made of constants)
_NAMES: Final = ("ids", "attempts", "snoozes", "actors", "queues", "bodies", "properties", "ordering_keys", "delay_s")
_NAMED: Final = sa.text(_TEMPLATE.format(**{name: f":{name}" for name in _NAMES}))
_PYFORMAT: Final = _TEMPLATE.format(**{name: f"%({name})s" for name in _NAMES})


@runtime_checkable
class Cursor(Protocol):
    """What executes a statement in the DB-API's `pyformat` style: a psycopg or Django cursor."""

    def execute(self, query: str, params: dict[str, Any], /) -> object:
        """Run one statement."""


class DbApiConnection(Protocol):
    """What makes such cursors: a psycopg connection, or `django.db.connection`."""

    def cursor(self) -> AbstractContextManager[Cursor]:
        """Return a new cursor."""


SyncPlace = Session | scoped_session[Any] | sa.Connection | DbApiConnection | Cursor
_ASYNC: Final = (AsyncSession, async_scoped_session, AsyncConnection, psycopg.AsyncConnection, psycopg.AsyncCursor)
AsyncPlace = AsyncSession | async_scoped_session[Any] | AsyncConnection | psycopg.AsyncConnection[Any]


def add(place: SyncPlace, *jobs: Job, delay_s: Delay = 0.0, ordering_key: str | None = None) -> None:
    """Write ``jobs`` into the outbox in the transaction of ``place``; they are sent after its commit.

    ``place`` is an SQLAlchemy session or connection, a psycopg connection or cursor, or Django's
    connection or cursor. ``delay_s`` (seconds, or a `timedelta`) counts from now, by the database's clock. Rows of one
    ``ordering_key`` are published in the order of their writing; a job of an ordered actor has one by itself.

    Raise `Unsendable` (nothing was written) for a job that no broker would take, and `Misused`
    for a psycopg connection in autocommit outside a transaction, because the row would not be bound
    to any change.
    """
    if not jobs:
        return
    values = columns.of(jobs, delay_s, ordering_key)
    if isinstance(place, Session | scoped_session | sa.Connection):
        place.execute(_NAMED, values)
        return
    _refuse_lone(place)
    if _makes_cursors(place):
        with place.cursor() as cursor:
            cursor.execute(_PYFORMAT, values)
    elif isinstance(place, Cursor) and not isinstance(place, _ASYNC):
        place.execute(_PYFORMAT, values)
    else:
        raise TypeError(f"outbox.add cannot write through a {type(place).__name__}; for an async one await aadd")


async def aadd(place: AsyncPlace, *jobs: Job, delay_s: Delay = 0.0, ordering_key: str | None = None) -> None:
    """Do what `add` does, through an async session or connection."""
    if not jobs:
        return
    values = columns.of(jobs, delay_s, ordering_key)
    if isinstance(place, AsyncSession | async_scoped_session | AsyncConnection):
        await place.execute(_NAMED, values)
        return
    if not isinstance(place, psycopg.AsyncConnection):
        raise TypeError(f"outbox.aadd cannot write through a {type(place).__name__}")
    _refuse_lone(place)
    async with cast("AbstractAsyncContextManager[psycopg.AsyncCursor[Any]]", place.cursor()) as cursor:
        await cursor.execute(_PYFORMAT.encode(), values)


def _makes_cursors(place: object) -> TypeGuard[DbApiConnection]:
    # Django's cursor has an attribute of that name too: the driver's cursor, which cannot be called.
    return callable(getattr(place, "cursor", None)) and not isinstance(place, _ASYNC)


def _refuse_lone(place: object) -> None:
    connection = getattr(place, "connection", place)
    if not isinstance(connection, psycopg.Connection | psycopg.AsyncConnection):
        return
    if connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE:
        raise Misused("outbox.add needs an open transaction; this connection commits every statement")
