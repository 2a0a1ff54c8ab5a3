"""Keep what became of an attempt, so that a second copy of it is recognised (guarantee 1).

A retry, a snooze or a death of (job id, attempt) writes one row with the message that follows, before that
message is published. Whoever writes first has settled the attempt: `write` says False to the other copy.
A delivery that may be a second copy asks `find` and, if there is a row, publishes that message again unless
the broker had confirmed it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from smena.records.asked import PAIRS, Attempt, is_asked, pairs
from smena.records.pruning import delete_some, older_than
from smena.store.database import Database
from smena.store.tables import settlements

Kind = Literal["retry", "dead", "snooze"]


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """The message that follows an attempt, as it goes to the broker.

    ``properties`` holds JSON values only; ``queue`` is the logical queue, for `job show`.
    """

    exchange: str
    routing_key: str
    body: bytes
    properties: Mapping[str, Any]
    kind: Kind
    queue: str


@dataclass(frozen=True, slots=True)
class Settled:
    """A settled attempt; ``confirmed`` means that the broker has the message."""

    message: StoredMessage
    confirmed: bool

    @property
    def is_over(self) -> bool:
        """Say whether nothing is left to publish: a dead letter twice is one row, a lost one is lost."""
        return self.confirmed and self.message.kind != "dead"


_WRITE: Final = (
    pg.insert(settlements).on_conflict_do_nothing(index_elements=["job_id", "attempt"]).returning(settlements.c.job_id)
)
_WRITE_MANY: Final = _WRITE.returning(settlements.c.job_id, settlements.c.attempt)

_IS_ASKED: Final = is_asked(settlements)
_FIND: Final = sa.select(settlements).join(PAIRS, _IS_ASKED)
_CONFIRM: Final = (
    sa.update(settlements).where(_IS_ASKED, settlements.c.confirmed_at.is_(None)).values(confirmed_at=sa.func.now())
)


class Settlements:
    """The table `settlements`; safe from all threads. Raises `DatabaseLost` and `DatabaseBusy`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def write(self, job_id: str, attempt: int, message: StoredMessage) -> bool:
        """Settle the attempt; return False where another copy was first, whose message stands."""
        with self._database.transaction() as connection:
            return connection.execute(_WRITE, row_of(job_id, attempt, message)).first() is not None

    def write_many(self, messages: Sequence[tuple[Attempt, StoredMessage]]) -> set[Attempt]:
        """Settle many at once; return those that were not settled before. Of one attempt, the first counts."""
        if not messages:
            return set()
        rows = [row_of(*attempt, message) for attempt, message in messages]
        with self._database.transaction() as connection:
            return {(row.job_id, row.attempt) for row in connection.execute(_WRITE_MANY, rows)}

    def find(self, attempts: Sequence[Attempt]) -> dict[Attempt, Settled]:
        """Return those of the attempts that are settled."""
        if not attempts:
            return {}
        with self._database.transaction() as connection:
            return {(row.job_id, row.attempt): _settled(row) for row in connection.execute(_FIND, pairs(attempts))}

    def confirmed(self, attempts: Sequence[Attempt]) -> None:
        """Mark that the broker has the messages of these attempts; a lost mark only publishes one again."""
        if attempts:
            with self._database.transaction() as connection:
                connection.execute(_CONFIRM, pairs(attempts))

    def prune(self, keep_s: float, limit: int = 1000) -> int:
        """Delete settlements older than that, at most ``limit``; return how many."""
        with self._database.transaction() as connection:
            return delete_some(connection, settlements, older_than(settlements.c.created_at, keep_s), limit)


def row_of(job_id: str, attempt: int, message: StoredMessage) -> dict[str, Any]:
    """Return the row of a settled attempt."""
    return {
        "job_id": job_id,
        "attempt": attempt,
        "kind": message.kind,
        "queue": message.queue,
        "exchange": message.exchange,
        "routing_key": message.routing_key,
        "body": message.body,
        "properties": dict(message.properties),
    }


def _settled(row: sa.Row[Any]) -> Settled:
    message = StoredMessage(row.exchange, row.routing_key, bytes(row.body), row.properties, row.kind, row.queue)
    return Settled(message, confirmed=row.confirmed_at is not None)
