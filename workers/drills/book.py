"""The drills' own jobs.

Each takes a shared advisory lock (process id, job number) for as long as its transaction lasts, writes its effect into
that same transaction, and then takes its time. So the database shows which jobs run, and in which process: the lock
guards nothing (it is shared) and is gone with the transaction, however that ends.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

import smena

QUEUE: Final = "drill"

_BEGIN: Final = sa.text("""
WITH shown AS (SELECT pg_try_advisory_xact_lock_shared(:process, :number))
INSERT INTO drill.effects (number, run, attempt, process)
SELECT :number, :run, :attempt, :process FROM shown
""")
_RETRY: Final = smena.Retry(base_s=0.1, cap_s=0.5)

book = smena.Book("drill")


@dataclass
class Piece:
    """One job's work: its number, the run that it belongs to, and how long it takes."""

    number: int
    run: str
    ms: int


def _values(ctx: smena.Context, piece: Piece) -> dict[str, object]:
    return {"number": piece.number, "run": piece.run, "attempt": ctx.attempt, "process": os.getpid()}


@book.actor(queue=QUEUE, retry=_RETRY, once=lambda piece: piece.number)
def work(ctx: smena.Context, session: Session, /, piece: Piece) -> None:
    """Take effect once, on a thread."""
    session.execute(_BEGIN, _values(ctx, piece))
    time.sleep(piece.ms / 1000)


@book.actor(queue=QUEUE, retry=_RETRY, once=lambda piece: piece.number)
async def awork(ctx: smena.Context, session: AsyncSession, /, piece: Piece) -> None:
    """Take effect once, on the event loop."""
    await session.execute(_BEGIN, _values(ctx, piece))
    await asyncio.sleep(piece.ms / 1000)


@book.actor(queue=QUEUE, retry=_RETRY, once=lambda piece: piece.number)
def second_try(ctx: smena.Context, session: Session, /, piece: Piece) -> None:
    """Fail in the first attempt, take effect in the second."""
    session.execute(_BEGIN, _values(ctx, piece))
    if ctx.attempt == 1:
        raise smena.Transient("the first attempt of this job always fails")
    time.sleep(piece.ms / 1000)
