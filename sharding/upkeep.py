"""What batches need when nobody asks: shard jobs where those of a batch were lost, and an end to what was kept long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import sqlalchemy as sa

from sharding import batches
from sharding.progress import IDLE_S

_WAKE: Final = sa.text("""
UPDATE smena.batches AS b SET epoch = epoch + 1, sent_at = clock_timestamp()
WHERE state = 'running' AND sent_at < clock_timestamp() - make_interval(secs => :stalled_s * least(epoch, 10))
  AND NOT EXISTS (SELECT 1 FROM smena.batch_slices WHERE batch = b.id AND lease_until > clock_timestamp())
RETURNING b.id AS batch, b.epoch, b.mode, b.queue, b.shards
""")
_SEE: Final = sa.text("""
UPDATE smena.batches SET held_at = clock_timestamp() WHERE id = ANY(ARRAY(
    SELECT id FROM smena.batches AS b
    WHERE state = 'running' AND held_at < clock_timestamp() - make_interval(secs => :stalled_s / 4)
      AND EXISTS (SELECT 1 FROM smena.batch_slices WHERE batch = b.id AND lease_until > clock_timestamp())
    FOR NO KEY UPDATE SKIP LOCKED
))
""")
_STALLED: Final = sa.text(f"""
SELECT * FROM (
    SELECT b.id, b.actor, b.queue, {IDLE_S} AS since_s FROM smena.batches AS b WHERE b.state = 'running'
) AS idle WHERE since_s > :stalled_s ORDER BY id
""")  # noqa: S608 - a constant
_OLD: Final = sa.text("""
UPDATE smena.batches SET ended_at = 'epoch' WHERE id = (
    SELECT id FROM smena.batches WHERE ended_at < clock_timestamp() - make_interval(secs => :keep_s)
    ORDER BY ended_at LIMIT 1 FOR UPDATE SKIP LOCKED
) RETURNING id
""")
"""It ended at the epoch from now on: nobody can take up again what has lost some of its items (`batches.retry`)."""

_PARTS: Final = ("batch_items", "batch_marks", "batch_dead", "batch_slices", "batch_keys")


class Woken(NamedTuple):
    """A batch that was sent new shard jobs."""

    batch: int
    epoch: int
    mode: batches.Mode
    queue: str
    shards: int


def wake(connection: sa.Connection, stalled_s: float) -> Sequence[Woken]:
    """Send new shard jobs for batches that run, have something to take (or only their end), and that nobody holds.

    A shard job can be lost: dead by a poisoned process, or purged with its queue. Where the old ones only wait in a
    long queue, they end when their turn comes, for their epoch is over; each time is waited for longer than the last,
    up to ten times as long as the first.
    """
    woken = [Woken._make(row) for row in connection.execute(_WAKE, {"stalled_s": stalled_s})]
    for batch, epoch, mode, queue, shards in woken:
        batches.send_shards(connection, batch, mode, queue, epoch, shards)
    return woken


def see(connection: sa.Connection, stalled_s: float) -> int:
    """Note which batches somebody has in hand, or their retries wait; return how many were noted.

    A finished slice leaves no trace, so that nobody has to wait for a row that all change.
    """
    return connection.execute(_SEE, {"stalled_s": stalled_s}).rowcount


def prune(connection: sa.Connection, keep_s: float, limit: int) -> int:
    """Delete at most ``limit`` rows of the batch that ended first, if that is ``keep_s`` ago; return how many.

    Once begun it is not taken up again: `batches.retry` and `resume` find no such batch.
    """
    batch = connection.scalar(_OLD, {"keep_s": keep_s})
    if batch is None:
        return 0
    for part in _PARTS:
        some = f"(SELECT ctid FROM smena.{part} WHERE batch = :batch LIMIT :limit)"  # noqa: S608 - a constant
        deleted = connection.execute(
            sa.text(f"DELETE FROM smena.{part} WHERE ctid = ANY(ARRAY{some})"),  # noqa: S608 - a constant
            {"batch": batch, "limit": limit},
        ).rowcount
        if deleted:
            return deleted
    connection.execute(sa.text("DELETE FROM smena.batches WHERE id = :batch"), {"batch": batch})
    return 1


class Stalled(NamedTuple):
    """A batch that runs and that nobody has in hand."""

    batch: int
    actor: str
    queue: str
    since_s: float


def stalled(connection: sa.Connection, stalled_s: float) -> Sequence[Stalled]:
    """Return the batches of which something could be taken and that nobody has had in hand for ``stalled_s``.

    It is measured from when a batch was last held, or opened or taken up again by hand; that new shard jobs were sent
    for it (`wake`) is no work.
    """
    return [Stalled._make(row) for row in connection.execute(_STALLED, {"stalled_s": stalled_s})]
