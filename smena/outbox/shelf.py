"""Look at outbox rows and put parked ones back: what an operator does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from smena.outbox.doorbell import CHANNEL
from smena.store.database import Database
from smena.store.escapes import storable
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


class Shelf:
    """The outbox, from an operator's side. Raises `DatabaseLost` and `DatabaseBusy`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def entries(self, states: Sequence[str], limit: int) -> list[OutboxEntry]:
        """Return the newest rows in any of ``states`` (pending, parked, sent)."""
        return self._select(_ROWS.where(outbox.c.state.in_(states)).order_by(outbox.c.seq.desc()).limit(limit))

    def of_job(self, job_id: str) -> list[OutboxEntry]:
        """Return the rows of one job, the oldest first."""
        return self._select(_ROWS.where(outbox.c.id == storable(job_id)).order_by(outbox.c.seq))

    def counts(self) -> dict[str, int]:
        """Return how many rows are pending and how many parked."""
        with self._database.transaction() as connection:
            return {state: connection.execute(_COUNT.where(outbox.c.state == state)).scalar_one() for state in UNSENT}

    def waiting(self) -> tuple[int, float]:
        """Return how many rows are due and not sent, and the age in seconds of the one that is due longest."""
        with self._database.transaction() as connection:
            count, oldest_s = connection.execute(_WAITING).one()
        return count, float(oldest_s or 0.0)

    def untaken(self, lease_s: float) -> tuple[int, float]:
        """Return how many rows are due for more than ``lease_s``, and the age of the oldest, if no relay is at work.

        One at work holds a claim, holds back what it could not send, or has sent something within the lease.
        """
        with self._database.transaction() as connection:
            count, oldest_s = connection.execute(_UNTAKEN, {"lease_s": lease_s}).one()
        return count, float(oldest_s or 0.0)

    def retry(self, job_id: str) -> int:
        """Make the parked rows of one job due again; return how many there were."""
        parked = sa.and_(outbox.c.id == storable(job_id), outbox.c.state == "parked")
        with self._database.transaction() as connection:
            freed = connection.execute(_FREE.where(parked)).rowcount
            connection.execute(_RING)
        return freed

    def _select(self, query: sa.Select[Any]) -> list[OutboxEntry]:
        with self._database.transaction() as connection:
            return [OutboxEntry(**row._asdict()) for row in connection.execute(query)]


_ROWS: Final = sa.select(*_SHOWN)
_COUNT: Final = sa.select(sa.func.count()).select_from(outbox)
_WAITING: Final = sa.select(
    sa.func.count(), sa.func.extract("epoch", sa.func.now() - sa.func.min(outbox.c.due_at))
).where(outbox.c.state == "pending", outbox.c.due_at <= sa.func.now())
_UNTAKEN: Final = sa.text("""
SELECT count(*), extract(epoch FROM now() - min(due_at)) FROM smena.outbox
WHERE state = 'pending' AND due_at < now() - make_interval(secs => :lease_s)
  AND NOT EXISTS (SELECT 1 FROM smena.outbox WHERE state = 'pending' AND due_at <= now() AND lease_until > now())
  AND NOT EXISTS (
      SELECT 1 FROM smena.outbox WHERE state = 'sent' AND sent_at > now() - make_interval(secs => :lease_s))
""")
_FREE: Final = sa.update(outbox).values(state="pending", due_at=sa.func.now(), lease_until=None, owner=None)
_RING: Final = sa.select(sa.func.pg_notify(CHANNEL, ""))
