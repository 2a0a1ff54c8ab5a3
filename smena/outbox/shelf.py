"""Look at outbox rows and put parked ones back: what an operator does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from smena.outbox.doorbell import CHANNEL
from smena.store.tables import outbox

_SHOWN: Final = (
    outbox.c.seq,
    outbox.c.id,
    outbox.c.attempt,
    outbox.c.actor,
    outbox.c.queue,
    outbox.c.state,
    outbox.c.ordering_key,
    outbox.c.created_at,
    outbox.c.due_at,
    outbox.c.sent_at,
    outbox.c.owner,
    outbox.c.lease_until,
    outbox.c.tries,
    outbox.c.error,
)

UNSENT: Final = ("pending", "parked")
_COUNT: Final = sa.select(sa.func.count()).select_from(outbox)


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """A row as an operator sees it; never the job's arguments."""

    seq: int
    id: str
    attempt: int
    actor: str
    queue: str
    state: str
    ordering_key: str | None
    created_at: datetime
    due_at: datetime
    sent_at: datetime | None
    owner: str | None
    lease_until: datetime | None
    tries: int
    error: str | None


def entries(connection: sa.Connection, states: Sequence[str], limit: int) -> list[OutboxEntry]:
    """Return the newest rows in any of ``states`` (pending, parked, sent)."""
    query = sa.select(*_SHOWN).where(outbox.c.state.in_(states)).order_by(outbox.c.seq.desc()).limit(limit)
    return [OutboxEntry(**row._asdict()) for row in connection.execute(query)]


def of_job(connection: sa.Connection, job_id: str) -> list[OutboxEntry]:
    """Return the rows of one job, the oldest first."""
    query = sa.select(*_SHOWN).where(outbox.c.id == job_id).order_by(outbox.c.seq)
    return [OutboxEntry(**row._asdict()) for row in connection.execute(query)]


def counts(connection: sa.Connection) -> dict[str, int]:
    """Return how many rows are pending and how many parked."""
    unsent = [connection.execute(_COUNT.where(outbox.c.state == state)).scalar_one() for state in UNSENT]
    return dict(zip(UNSENT, unsent, strict=True))


def waiting(connection: sa.Connection) -> tuple[int, float]:
    """Return how many rows are due and not sent, and the age in seconds of the one that is due longest."""
    age: sa.ColumnElement[Any] = sa.func.extract("epoch", sa.func.now() - sa.func.min(outbox.c.due_at))
    due = sa.and_(outbox.c.state == "pending", outbox.c.due_at <= sa.func.now())
    count, oldest_s = connection.execute(sa.select(sa.func.count(), age).where(due)).one()
    return count, float(oldest_s or 0.0)


def retry(connection: sa.Connection, job_id: str) -> int:
    """Make the parked rows of one job due again; return how many there were."""
    values = {"state": "pending", "due_at": sa.func.now(), "lease_until": None, "owner": None}
    change = sa.update(outbox).where(outbox.c.id == job_id, outbox.c.state == "parked").values(**values)
    result: sa.CursorResult[Any] = connection.execute(change)
    connection.execute(sa.select(sa.func.pg_notify(CHANNEL, "")))
    return result.rowcount
