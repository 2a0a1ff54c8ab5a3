"""Claim due rows for one relay, and write down what became of each, only under the claim's term.

A claim is a lease on the row itself, by the database's clock, under a term that grows with every claim
of that row. It changes no indexed column, so claiming is a heap-only update. What a relay writes later
names (row, term): a row that was claimed again meanwhile is not touched, and that is counted.

Rows with an ordering key are claimed only by the relay that holds the lease of their key's slot, under its term: so
one relay at a time claims rows of a key, however many there are, and takes over at once what an earlier holder had
claimed. It claims a run of a key from its first unsent row on: no row while an earlier one that is due is under way,
held back, or left out of the batch. A parked row holds nobody back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from smena.errors import SmenaError
from smena.store.database import Database
from smena.store.terms import Term
from smena.telemetry.plain_text import cut

BATCH_BYTES: Final = 16 * 1024 * 1024
"""Bodies of one batch together, but for the last one; bounds memory whatever the rows hold."""

SLOTS: Final = 64
"""Partitions of the ordering keys; so many relays at most can share them."""

_SLOT: Final = f"""
('x' || left(encode(sha256(convert_to(o.ordering_key, 'UTF8')), 'hex'), 8))::bit(32)::bigint % {SLOTS}
"""
"""`smena.keyspace.partition_of`, in the database."""

# The leases are locked first and stay so until the claim commits, at its end: a takeover comes before or after it.
_CLAIM: Final = sa.text(f"""
WITH ours AS MATERIALIZED (
    SELECT held.slot FROM smena.leases AS l
    JOIN unnest(CAST(:leases AS text[]), CAST(:numbers AS bigint[]), CAST(:slots AS int[])) AS held(name, number, slot)
    ON l.name = held.name AND l.term = held.number
    FOR KEY SHARE OF l
), due AS (
    SELECT seq, due_at, octet_length(body) AS bytes
    FROM smena.outbox AS o
    WHERE state = 'pending' AND due_at <= clock_timestamp()
      AND CASE WHEN ordering_key IS NULL THEN lease_until IS NULL OR lease_until <= clock_timestamp()
          ELSE {_SLOT} IN (SELECT slot FROM ours)
               AND (lease_until IS NULL OR lease_until <= clock_timestamp() OR owner <> :owner)
               AND NOT EXISTS (
                   SELECT 1 FROM smena.outbox AS earlier
                   WHERE earlier.state = 'pending' AND earlier.ordering_key = o.ordering_key AND earlier.seq < o.seq
                     AND (earlier.lease_until > clock_timestamp() AND coalesce(earlier.owner, :owner) = :owner
                          OR earlier.due_at > o.due_at AND earlier.due_at <= clock_timestamp()))
          END
    ORDER BY due_at, seq
    LIMIT :batch
    FOR UPDATE SKIP LOCKED
), fitting AS (
    SELECT seq FROM (SELECT seq, sum(bytes) OVER (ORDER BY due_at, seq) - bytes AS before FROM due) AS measured
    WHERE before < :bytes
)
UPDATE smena.outbox AS o
SET owner = :owner, term = o.term + 1, lease_until = clock_timestamp() + make_interval(secs => :lease_s)
FROM fitting
WHERE o.seq = fitting.seq
  AND (ordering_key IS NULL OR NOT EXISTS (
      SELECT 1 FROM smena.outbox AS earlier
      WHERE earlier.state = 'pending' AND earlier.ordering_key = o.ordering_key AND earlier.seq < o.seq
        AND earlier.due_at <= clock_timestamp() AND earlier.seq NOT IN (SELECT seq FROM fitting)))
RETURNING o.seq, o.term, o.id, o.actor, o.queue, o.exchange, o.routing_key, o.body, CAST(o.properties AS text),
          o.tries, CASE WHEN ordering_key IS NOT NULL THEN {_SLOT} END
""")  # noqa: S608 (made of constants)
_OURS: Final = """
FROM unnest(CAST(:seqs AS bigint[]), CAST(:terms AS bigint[]), CAST(:errors AS text[])) AS claim(seq, term, error)
WHERE o.seq = claim.seq AND o.term = claim.term AND o.state = 'pending'
"""
_SENT: Final = sa.text(f"""
UPDATE smena.outbox AS o
SET state = 'sent', sent_at = clock_timestamp(), owner = NULL, lease_until = NULL, error = NULL {_OURS}
""")  # noqa: S608 (made of constants)
_HELD_BACK: Final = sa.text(f"""
UPDATE smena.outbox AS o
SET owner = NULL, lease_until = clock_timestamp() + make_interval(secs => :wait_s),
    tries = tries + 1, error = claim.error {_OURS}
""")  # noqa: S608 (made of constants)
_PARKED: Final = sa.text(f"""
UPDATE smena.outbox AS o
SET state = 'parked', owner = NULL, lease_until = NULL, tries = tries + 1, error = claim.error {_OURS}
""")  # noqa: S608 (made of constants)
_RELEASED: Final = sa.text(f"UPDATE smena.outbox AS o SET owner = NULL, lease_until = NULL {_OURS}")  # noqa: S608
_NEXT_DUE: Final = sa.text("""
SELECT extract(epoch FROM due_at - clock_timestamp())
FROM smena.outbox WHERE state = 'pending' AND due_at > clock_timestamp() ORDER BY due_at LIMIT 1
""")


class Row(NamedTuple):
    """A claimed row: its handle (``seq``, ``term``) and what is to be published."""

    seq: int
    term: int
    id: str
    actor: str
    queue: str
    exchange: str | None
    routing_key: str | None
    body: bytes
    properties: str
    tries: int
    slot: int | None = None
    """The partition of its ordering key, where it has one."""


Ended = tuple[Row, SmenaError | None]
"""A row and what its publish came to."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of claimed rows."""

    sent: Sequence[Ended] = ()
    parked: Sequence[Ended] = ()
    held_back: Sequence[Ended] = ()
    wait_s: float = 0.0


class Claims:
    """One relay's claims; ``owner`` is random per boot (P32)."""

    def __init__(self, database: Database, owner: str, lease_s: float) -> None:
        self.owner = owner
        self.lease_s = lease_s
        self._database = database

    def take(self, batch: int, slots: Mapping[int, Term] | None = None) -> list[Row]:
        """Claim up to ``batch`` due rows, in the order of their writing; fewer where their bodies are large.

        ``slots`` are the partitions of the ordering keys that are this relay's, each with its term.
        """
        held = slots or {}
        values = {
            "batch": batch,
            "bytes": BATCH_BYTES,
            "owner": self.owner,
            "lease_s": self.lease_s,
            "leases": [term.lease for term in held.values()],
            "numbers": [term.number for term in held.values()],
            "slots": list(held),
        }
        with self._database.transaction() as connection:
            rows = connection.execute(_CLAIM, values).all()
        return sorted(Row._make(row) for row in rows)

    def settle(self, verdict: Verdict) -> int:
        """Write down what became of rows, in one transaction; return how many were no longer ours.

        Sent ones are done. Held-back ones wait for ``wait_s`` and are as good as before. Parked ones are
        set aside with their error until an operator looks.
        """
        with self._database.transaction() as connection:
            changed = (
                _change(connection, _SENT, verdict.sent)
                + _change(connection, _HELD_BACK, verdict.held_back, wait_s=verdict.wait_s)
                + _change(connection, _PARKED, verdict.parked)
            )
        return len(verdict.sent) + len(verdict.held_back) + len(verdict.parked) - changed

    def release(self, rows: Sequence[Row]) -> None:
        """Give rows back that were not published."""
        with self._database.transaction() as connection:
            _change(connection, _RELEASED, [(row, None) for row in rows])

    def next_due_s(self) -> float | None:
        """Return the seconds until the next delayed row is due, or None if nothing waits for a time."""
        with self._database.transaction() as connection:
            seconds = connection.execute(_NEXT_DUE).scalar()
        return None if seconds is None else max(0.0, float(seconds))


def _change(connection: sa.Connection, statement: sa.TextClause, failed: Sequence[Ended], **values: Any) -> int:
    if not failed:
        return 0
    values |= {
        "seqs": [row.seq for row, _ in failed],
        "terms": [row.term for row, _ in failed],
        "errors": [None if error is None else cut(f"{error.code}: {error}") for _, error in failed],
    }
    return connection.execute(statement, values).rowcount
