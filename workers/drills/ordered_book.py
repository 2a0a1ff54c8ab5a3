"""The drills' ordered jobs: of each key they take effect in the order of their numbers, which is that of their sending.

A book of its own, so that only the drills of ordered queues have partitions to look after.
"""

from __future__ import annotations

import time
from typing import Final, LiteralString

from sqlalchemy.orm import Session

import smena
from workers.drills.book import RETRY, Piece, effect

QUEUE: Final = "drill-ordered"
PARTITIONS: Final = 12
KEYS: Final = 48
HOT: Final = 5
"""Of so many jobs of the hot kind, all but one are of one key."""

book = smena.Book("ordered")

VIOLATIONS: Final[LiteralString] = """
SELECT count(*) FROM (
    SELECT number, max(number) OVER (
        PARTITION BY actor LIKE '%%.hot%%' AND number %% 5 > 0, CASE
            WHEN actor LIKE '%%.hot%%' AND number %% 5 > 0 THEN 0 ELSE number %% 48 END
        ORDER BY at, number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS before
    FROM drill.effects JOIN drill.jobs USING (number) WHERE effects.run = %(run)s
) AS seen WHERE before > number
"""
"""How many effects came after a later one of their key."""

OWNED: Final[LiteralString] = """
SELECT count(*), count(DISTINCT owner) FROM smena.leases
WHERE name LIKE 'partition:drill-ordered:%%' AND owner IS NOT NULL AND expires_at > clock_timestamp()
"""
"""How many partitions have an owner, and how many owners there are."""


@book.actor(queue=QUEUE, retry=RETRY, partition_by=lambda piece: piece.number % KEYS, partitions=PARTITIONS)
def ordered(ctx: smena.Context, session: Session, /, piece: Piece) -> None:
    """Take effect in the order of the key."""
    session.execute(*effect(ctx, piece))
    time.sleep(piece.ms / 1000)


@book.actor(queue=QUEUE, retry=RETRY, partition_by=lambda piece: piece.number % KEYS, partitions=PARTITIONS)
def ordered_again(ctx: smena.Context, session: Session, /, piece: Piece) -> None:
    """Fail in the first attempt, which holds the key, and take effect in the second."""
    session.execute(*effect(ctx, piece))
    if ctx.attempt == 1:
        raise smena.Transient("the first attempt of this job always fails")
    time.sleep(piece.ms / 1000)


@book.actor(
    queue=QUEUE,
    retry=RETRY,
    partition_by=lambda piece: "hot" if piece.number % HOT else piece.number % KEYS,
    partitions=PARTITIONS,
)
def hot(ctx: smena.Context, session: Session, /, piece: Piece) -> None:
    """Take effect in the order of the key; most are of one."""
    session.execute(*effect(ctx, piece))
    time.sleep(piece.ms / 1000)
