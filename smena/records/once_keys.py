"""Keep the keys of effects that have happened: their SQL.

The hot statements (`take`, `keep_result`) are text for one simple query, made for `HoldableConnection.hold`
and `keep`; they call what `PREPARE` prepared, so that the server plans them once per connection.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from psycopg.pq.abc import PGresult
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.orm import Session

from smena.records.pruning import delete_some
from smena.store.escapes import is_storable, storable
from smena.store.tables import once_keys

LONGEST_KEY: Final = 512
"""Longer keys are kept as their digest: an index entry has to fit a third of a page."""

PREPARE: Final = b"""
PREPARE smena_once_take (text, text, text, float8) AS
    INSERT INTO smena.once_keys (actor, key, job_id, expires_at)
    VALUES ($1, $2, $3, now() + make_interval(secs => $4)) ON CONFLICT DO NOTHING;
PREPARE smena_once_result (text, text, json) AS
    UPDATE smena.once_keys SET result = $3 WHERE actor = $1 AND key = $2
"""

FIND: Final = "SELECT result::text FROM smena.once_keys WHERE actor = %s AND key = %s"

Quote = Callable[[bytes], bytes]
"""Make an SQL literal of UTF-8 text, for one connection."""


@dataclass(frozen=True, slots=True)
class OnceKey:
    """What an effect is known by: the actor and its key. The job is the one that wants it now."""

    actor: str
    key: str
    job_id: str

    def kept(self) -> str:
        """Return the key as the table holds it: as it is, or a digest where that would not fit.

        Equal keys stay equal and different ones different, which cutting or escaping would not give.
        """
        if len(self.key) <= LONGEST_KEY and is_storable(self.key):
            return self.key
        return "sha256:" + hashlib.sha256(self.key.encode("utf-8", "surrogatepass")).hexdigest()


def take(quote: Quote, key: OnceKey, keep_s: float) -> bytes:
    """Return the statement that writes the key, unless it is there; `taken` reads its result."""
    names = b",".join(quote(text.encode()) for text in (key.actor, key.kept(), storable(key.job_id)))
    return b"EXECUTE smena_once_take(%b,%d)" % (names, keep_s)


def taken(results: list[PGresult]) -> bool:
    """Say whether `take` wrote the key; False means that it was there."""
    return results[0].command_tuples == 1


def keep_result(quote: Quote, key: OnceKey, result: bytes) -> bytes:
    """Return the statement that keeps the job's result (JSON) in the key's row."""
    values = b",".join((quote(key.actor.encode()), quote(key.kept().encode()), quote(result)))
    return b"EXECUTE smena_once_result(%b);" % values


def names(key: OnceKey) -> tuple[str, str]:
    """Return the arguments of `FIND`."""
    return key.actor, key.kept()


def prune(connection: sa.Connection, limit: int = 1000) -> int:
    """Delete keys that have expired, at most ``limit``; return how many."""
    return delete_some(connection, once_keys, once_keys.c.expires_at < sa.func.now(), limit)


def forget(connection: sa.Connection, actor: str, key: str) -> None:
    """Delete a key, so that its effect may happen again."""
    kept = OnceKey(actor, key, "").kept()
    connection.execute(sa.delete(once_keys).where(once_keys.c.actor == actor, once_keys.c.key == kept))


def kept_value(within: sa.Connection | Session, actor: str, key: str) -> Any:
    """Return the value that `keep_value` kept, or None."""
    found = sa.select(once_keys.c.result).where(once_keys.c.actor == actor, once_keys.c.key == key)
    return within.execute(found).scalar_one_or_none()


def keep_value(within: sa.Connection | Session, actor: str, key: str, job_id: str, value: Any) -> None:
    """Keep a value under a key, in place of the one before; for ten years."""
    insert = pg.insert(once_keys).values(
        actor=actor, key=key, job_id=job_id, result=value, expires_at=sa.func.now() + sa.text("interval '10 years'")
    )
    within.execute(
        insert.on_conflict_do_update(index_elements=["actor", "key"], set_={"result": insert.excluded.result})
    )
