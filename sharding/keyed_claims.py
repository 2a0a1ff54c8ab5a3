"""Take slices of a batch by partition, so that a key's items are worked one after the other and in their order.

A slice is a row as in `claims.py`, under a lease and a term. Its items have one partition, and those of a key are
neighbours (`keyed_sources.py`). A claim obeys two rules, under a lock of the partition, so that two claimers cannot
both find them kept: **no other slice of the partition has an owner**, so the partition has one; and **no earlier
slice ends with the key that this one begins with**, so what waits for its next attempt holds up its key and no other.

The attempt of a slice is that of its first item: what failed begins a slice of its own, with the rest of its key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import sqlalchemy as sa

from sharding import claims
from sharding.claims import Again, Claim, DeadItem, Piece, Wish
from sharding.progress import Outlook

BLOCKED: Final = "blocked"
"""Why an item is dead that stood behind a dead one of its key."""

MOST_HELD: Final = 64
"""Keys of a partition that wait for their next attempt. With so many it is not the keys: the whole partition waits for
the first of them then, so that a service that is away leaves few slices."""

_KEY: Final = """
    SELECT k.first, k.last FROM smena.batch_keys AS k
    WHERE k.batch = :batch AND k.first <= {number} ORDER BY k.first DESC LIMIT 1
"""
"""The key that an item has."""

_IS_BEHIND: Final = f"""
    (SELECT p.last FROM smena.batch_slices AS p
     WHERE p.batch = :batch AND p.partition = s.partition AND p.first < s.first ORDER BY p.first DESC LIMIT 1)
    >= (SELECT first FROM ({_KEY.format(number="s.first")}) AS own)
"""  # noqa: S608 - constants
_READY: Final = f"""
    smena.batch_slices AS s
    WHERE s.batch = :batch AND s.partition IS NOT NULL AND s.lease_until <= clock_timestamp()
      AND EXISTS (SELECT 1 FROM smena.batches WHERE id = :batch AND state = 'running' AND epoch = :epoch)
      AND NOT EXISTS (SELECT 1 FROM smena.batch_slices AS h WHERE h.batch = :batch AND h.partition = s.partition
                      AND h.owner IS NOT NULL AND h.id <> s.id)
      AND (s.owner IS NOT NULL OR (({_IS_BEHIND}) IS NOT TRUE AND {MOST_HELD} > (
           SELECT count(*) FROM smena.batch_slices AS w WHERE w.batch = :batch AND w.partition = s.partition
           AND w.lease_until > clock_timestamp())))
"""  # noqa: S608 - constants
_LOCK: Final = sa.text(f"""
WITH ready AS MATERIALIZED (SELECT s.partition FROM {_READY} GROUP BY s.partition ORDER BY random())
SELECT partition FROM ready
WHERE pg_try_advisory_xact_lock(
    hashtextextended('smena.batch.' || CAST(:batch AS bigint) || '.' || CAST(partition AS text), 0))
LIMIT 1
""")  # noqa: S608 - constants
_TAKE: Final = sa.text(f"""
WITH free AS (
    SELECT s.id, s.first, s.last, b.blamed, s.losses + CAST(b.blamed AS int) AS losses
    FROM smena.batch_slices AS s CROSS JOIN LATERAL ({claims.BLAMED}) AS b
    WHERE s.id = (SELECT s.id FROM {_READY} AND s.partition = :partition ORDER BY s.first LIMIT 1)
      AND s.lease_until <= clock_timestamp()
    FOR UPDATE OF s SKIP LOCKED
), reached AS (
    SELECT *, least(last, first + :items - 1,
                    CASE WHEN blamed AND first < last THEN first + (last - first + 1) / 2 - 1 ELSE last END) AS reach
    FROM free
), wanted AS (
    SELECT r.*, CASE WHEN reach < r.last AND k.last > reach AND k.first > r.first THEN k.first - 1 ELSE reach END
                    AS upto,
           CASE WHEN k.first <= r.first THEN least(k.last, r.last) ELSE 0 END AS key_end
    FROM reached AS r CROSS JOIN LATERAL ({_KEY.format(number="reach")}) AS k
), {claims.TAKEN}, rest AS (
    INSERT INTO smena.batch_slices (batch, partition, first, last, losses)
    SELECT :batch, :partition, r.first, r.last, least(losses, 1)
    FROM wanted AS w CROSS JOIN LATERAL (
        VALUES (upto + 1, greatest(key_end, upto)), (greatest(key_end, upto) + 1, w.last)
    ) AS r(first, last) WHERE r.first <= r.last
)
SELECT id, term, first, last, attempt, losses,
       (SELECT '[' || string_agg(CAST(item AS text), ',' ORDER BY number) || ']'
        FROM smena.batch_items WHERE batch = :batch AND number BETWEEN taken.first AND taken.last) AS items,
       (SELECT array_agg(k.last ORDER BY k.first) FROM smena.batch_keys AS k WHERE k.batch = :batch
        AND k.first BETWEEN (SELECT first FROM ({_KEY.format(number="taken.first")}) AS own) AND taken.last) AS ends
FROM taken
""")  # noqa: S608 - constants
_CUT: Final = sa.text("""
INSERT INTO smena.batch_slices (batch, partition, first, last)
SELECT :batch, partition, min(first), max(last) FROM smena.batch_keys WHERE batch = :batch GROUP BY partition
""")
REVIVE: Final = sa.text(f"""
WITH dead AS (DELETE FROM smena.batch_dead WHERE batch = :batch RETURNING number),
     placed AS (SELECT d.number, k.partition,
                       d.number - row_number() OVER (PARTITION BY k.partition ORDER BY d.number) AS run
                FROM dead AS d CROSS JOIN LATERAL (
                    {_KEY.replace("k.last", "k.partition").format(number="d.number")}) AS k),
     cut AS (INSERT INTO smena.batch_slices (batch, partition, first, last)
             SELECT :batch, partition, min(number), max(number) FROM placed GROUP BY partition, run)
SELECT number FROM dead
""")  # noqa: S608 - constants
"""The dead items as slices of their partitions again, first to last."""

_AGAIN: Final = sa.text("""
INSERT INTO smena.batch_slices (batch, partition, first, last, attempt, lease_until)
SELECT :batch, :partition, r.first, r.last, r.attempt,
       CASE WHEN r.wait_s > 0 THEN clock_timestamp() + make_interval(secs => r.wait_s) ELSE 'epoch' END
FROM unnest(CAST(:firsts AS bigint[]), CAST(:lasts AS bigint[]), CAST(:attempts AS int[]),
            CAST(:waits_s AS float8[])) AS r(first, last, attempt, wait_s)
""")
_BLOCK: Final = sa.text("""
WITH behind AS (
    SELECT id, first, last FROM smena.batch_slices
    WHERE batch = :batch AND partition = :partition AND first > :ours AND first <= :upto
), dead AS (
    INSERT INTO smena.batch_dead (batch, number, attempts, reason, error_text)
    SELECT :batch, n.number, 0, :reason, :told
    FROM (SELECT :number + 1 AS first, :ours AS last UNION ALL SELECT first, least(last, :upto) FROM behind) AS b
    CROSS JOIN LATERAL generate_series(b.first, b.last) AS n(number)
    ON CONFLICT DO NOTHING
    RETURNING 1
), gone AS (
    DELETE FROM smena.batch_slices AS s USING behind AS b WHERE s.id = b.id AND b.last <= :upto
), parted AS (
    UPDATE smena.batch_slices AS s SET first = :upto + 1, attempt = 1
    FROM behind AS b WHERE s.id = b.id AND b.last > :upto
)
SELECT count(*) FROM dead
""")
_OUTLOOK: Final = sa.text(f"""
SELECT b.state, b.epoch = :epoch AS current,
       (SELECT CAST(extract(epoch FROM min(until) - clock_timestamp()) AS float8) FROM (
            SELECT coalesce(max(lease_until) FILTER (WHERE owner IS NOT NULL),
                            CASE WHEN count(*) FILTER (WHERE lease_until > clock_timestamp()) >= {MOST_HELD}
                                 THEN min(lease_until) FILTER (WHERE lease_until > clock_timestamp()) END,
                            min(lease_until) FILTER (WHERE is_behind IS NOT TRUE)) AS until
            FROM (SELECT s.*, ({_IS_BEHIND}) AS is_behind FROM smena.batch_slices AS s WHERE s.batch = :batch) AS each
            GROUP BY partition) AS partitions) AS wait_s,
       EXISTS (SELECT 1 FROM smena.batch_slices WHERE batch = b.id) AS is_open
FROM smena.batches AS b WHERE b.id = :batch
""")  # noqa: S608 - constants


class Block(NamedTuple):
    """A dead item, the last one of its key in the claim, and the last of its key: those behind it are dead too."""

    number: int
    ours: int
    upto: int


def cut(connection: sa.Connection, batch: int) -> int:
    """Make a slice of each partition that has items; return how many."""
    return connection.execute(_CUT, {"batch": batch}).rowcount


def take(connection: sa.Connection, wish: Wish) -> Claim | None:
    """Take the first slice that is free of some partition, up to the wished number of items; None where none is.

    It ends where a key does, unless one key is longer than that. Call it in a transaction of its own.
    """
    epoch = {"batch": wish.batch, "epoch": wish.epoch}
    partition = connection.scalar(_LOCK, epoch)
    if partition is None:
        return None
    # A statement sees what was committed before it began: this one, all that who had the lock before has done.
    values = epoch | {"owner": wish.owner, "lease_s": wish.lease_s, "items": wish.items, "partition": partition}
    row = connection.execute(_TAKE, values).one_or_none()
    if row is None:
        return None
    items = claims.items_of(connection, wish.batch, row)
    piece = Piece(row.id, row.term, row.first, row.last, row.attempt, row.losses, items, tuple(row.ends))
    return Claim(wish.batch, (piece,), len(row.items), partition)


def finish(
    within: sa.Connection, claim: Claim, again: Sequence[Again], dead: Sequence[DeadItem], blocks: Sequence[Block]
) -> int:
    """Settle all items of the claim as `claims.finish` does, and bury what is behind the dead ones that block.

    Return how many were buried so; raises `ClaimLost`.
    """
    place = {"batch": claim.batch, "partition": claim.partition, "reason": BLOCKED}
    if again:
        within.execute(_AGAIN, place | claims.again_values(again))
    blocked = 0
    for block in blocks:
        told = {"told": f"blocked by item {block.number}"}
        blocked += within.scalar(_BLOCK, place | block._asdict() | told) or 0
    claims.bury(within, claim, dead)
    claims.settle(within, claim)
    return blocked


def outlook(connection: sa.Connection, batch: int, epoch: int) -> Outlook:
    """Say what `progress.outlook` says; a partition that has an owner is waited for as long as its lease is."""
    return Outlook.of(connection.execute(_OUTLOOK, {"batch": batch, "epoch": epoch}).one_or_none())
