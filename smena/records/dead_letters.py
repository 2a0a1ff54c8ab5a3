"""Keep dead letters as rows (guarantee 8): what died, why, when, where.

Rows come from messages of any origin, so nothing about them is trusted: text is escaped and cut to what the
table holds, numbers are bounded. A row that PostgreSQL refuses all the same is written again with its
evidence reduced to the error; it never fails the rows beside it (P25).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from smena.records.pruning import delete_some, older_than
from smena.store.database import Database
from smena.store.escapes import storable
from smena.store.tables import dead_letters

_LONGEST: Final = {"error_text": 4_096, "traceback": 32_768}
_LONGEST_NAME: Final = 1_024
_INTEGER_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """One dead letter. ``queue`` is the job's logical queue, ``source`` the broker's queue it was read from."""

    job_id: str
    attempt: int
    queue: str
    reason: str
    died_at: datetime
    body: bytes
    source: str | None = None
    actor: str | None = None
    error_class: str | None = None
    error_text: str | None = None
    traceback: str | None = None
    fingerprint: str | None = None
    first_enqueued_at: datetime | None = None
    worker: str | None = None
    build: str | None = None
    request_id: str | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredLetter:
    """A dead letter in the table, under its number there."""

    id: int
    archived_at: datetime
    letter: DeadLetter


_FIELDS: Final = tuple(one.name for one in fields(DeadLetter))
_INSERT: Final = pg.insert(dead_letters).on_conflict_do_nothing(index_elements=["job_id", "attempt"])


class DeadLetters:
    """The table `dead_letters`; safe from all threads. Raises `DatabaseLost` and `DatabaseBusy`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def insert_many(self, letters: Sequence[DeadLetter]) -> list[Exception | None]:
        """Write the letters and commit; return for each None, or why even its reduced form was refused.

        A letter whose (job id, attempt) is there already counts as written: it is the same death.
        """
        if not letters:
            return []
        try:
            with self._database.transaction() as connection:
                connection.execute(_INSERT, [_row(letter) for letter in letters])
        except sa.exc.DBAPIError:  # not operational, or it were translated: some row is to blame
            return [self._insert_alone(letter) for letter in letters]
        return [None] * len(letters)

    def newest(
        self,
        *,
        reason: str | None = None,
        queue: str | None = None,
        actor: str | None = None,
        fingerprint: str | None = None,
        before_id: int | None = None,
        limit: int = 50,
    ) -> list[StoredLetter]:
        """Return letters, the newest first; ``before_id`` continues a listing."""
        wanted = {"reason": reason, "queue": queue, "actor": actor, "fingerprint": fingerprint}
        query = sa.select(dead_letters).order_by(dead_letters.c.id.desc()).limit(limit)
        query = query.where(*(dead_letters.c[name] == value for name, value in wanted.items() if value is not None))
        if before_id is not None:
            query = query.where(dead_letters.c.id < before_id)
        return self._select(query)

    def get(self, letter_id: int) -> StoredLetter | None:
        """Return the letter of that number."""
        return next(iter(self._select(sa.select(dead_letters).where(dead_letters.c.id == letter_id))), None)

    def of_job(self, job_id: str) -> list[StoredLetter]:
        """Return the letters of a job, the last attempt first."""
        query = sa.select(dead_letters).where(dead_letters.c.job_id == storable(job_id, _LONGEST_NAME))
        return self._select(query.order_by(dead_letters.c.attempt.desc()))

    def count_by_reason(self) -> dict[str, int]:
        """Return how many letters there are for each reason."""
        query = sa.select(dead_letters.c.reason, sa.func.count().label("letters")).group_by(dead_letters.c.reason)
        with self._database.transaction() as connection:
            return {row.reason: row.letters for row in connection.execute(query)}

    def prune(self, keep_s: float, limit: int = 1000) -> int:
        """Delete letters that lie here for more than ``keep_s``, at most ``limit``; return how many.

        Only the first rows are looked at: letters come in the order of their numbers.
        """
        first = sa.select(dead_letters.c.id).order_by(dead_letters.c.id).limit(limit)
        is_old = sa.and_(dead_letters.c.id.in_(first.scalar_subquery()), older_than(dead_letters.c.archived_at, keep_s))
        with self._database.transaction() as connection:
            return delete_some(connection, dead_letters, is_old, limit)

    def _select(self, query: sa.Select[Any]) -> list[StoredLetter]:
        with self._database.transaction() as connection:
            return [_stored(row) for row in connection.execute(query)]

    def _insert_alone(self, letter: DeadLetter) -> Exception | None:
        refusal: Exception | None = None
        for row in _ever_plainer(letter):
            try:
                with self._database.transaction() as connection:
                    connection.execute(_INSERT, row if refusal is None else {**row, "error_text": _why(refusal)})
                return None
            except sa.exc.DBAPIError as error:
                refusal = error
        return refusal


def write(connection: sa.Connection, letter: DeadLetter) -> None:
    """Write a letter in a transaction of the caller's; one that is there already is the same death."""
    connection.execute(_INSERT, _row(letter))


def _ever_plainer(letter: DeadLetter) -> Iterable[dict[str, Any]]:
    row = _row(letter)
    yield row
    yield row | {"properties": {}, "traceback": None, "first_enqueued_at": None}


def _why(refusal: Exception) -> str:
    return storable(f"kept without its evidence, which was refused: {refusal}", _LONGEST["error_text"])


def _row(letter: DeadLetter) -> dict[str, Any]:
    row = {name: _tamed(name, getattr(letter, name)) for name in _FIELDS}
    return row | {"properties": dict(letter.properties)}


def _tamed(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return storable(value, _LONGEST.get(name, _LONGEST_NAME))
    if isinstance(value, int):
        return max(-_INTEGER_MAX, min(value, _INTEGER_MAX))
    return value


def _stored(row: sa.Row[Any]) -> StoredLetter:
    letter = DeadLetter(**{name: getattr(row, name) for name in _FIELDS if name != "body"}, body=bytes(row.body))
    return StoredLetter(row.id, row.archived_at, letter)
