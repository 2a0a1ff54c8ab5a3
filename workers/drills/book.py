"""The drills' own jobs.

Each takes a shared advisory lock (process id, job number) for as long as its transaction lasts, writes its effect into
that same transaction, and then takes its time. So the database shows which jobs run, and in which process: the lock
guards nothing (it is shared) and is gone with the transaction, however that ends.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import signal
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

import smena
from smena.store import terms

QUEUE: Final = "drill"

_BEGIN: Final = sa.text("""
WITH shown AS (SELECT pg_try_advisory_xact_lock_shared(:process, :number))
INSERT INTO drill.effects (number, run, attempt, process)
SELECT :number, :run, :attempt, :process FROM shown
""")
RETRY: Final = smena.Retry(base_s=0.1, cap_s=0.5)
LEASE_S: Final = 1.0
LEASES: Final = "drill-"
"""How the names of the jobs' leases begin; the number of the job follows, and the owner's begins with its process."""

_START: Final = sa.text(
    "INSERT INTO drill.starts (number, run, attempt, process) VALUES (:number, :run, :attempt, :process)"
)
_BEGUN: Final = sa.text("SELECT EXISTS (SELECT FROM drill.starts WHERE number = :number)")
_ALONE: Final = sa.text("SELECT pg_advisory_xact_lock(:number)")
_TICK: Final = sa.text("INSERT INTO drill.ticks VALUES (:schedule, :at, :job) ON CONFLICT DO NOTHING")
_DONE: Final = sa.text("SELECT EXISTS (SELECT FROM drill.effects WHERE number = :number)")
fence: Callable[[Session, terms.Term], None] = terms.fence
"""What lets a write go on only under its term; one control takes it out."""

book = smena.Book("drill")


@dataclass
class Piece:
    """One job's work: its number, the run that it belongs to, and how long it takes."""

    number: int
    run: str
    ms: int


def effect(ctx: smena.Context, piece: Piece) -> tuple[sa.TextClause, dict[str, object]]:
    """Return the statement that shows the job as running and writes its effect, with its values."""
    return _BEGIN, {"number": piece.number, "run": piece.run, "attempt": ctx.attempt, "process": os.getpid()}


@book.actor(queue=QUEUE, retry=RETRY)
def tick(ctx: smena.Context, session: Session, /) -> None:
    """Note which tick this job is of; a second delivery of one job is one row."""
    if ctx.tick is not None:
        session.execute(_TICK, {"schedule": ctx.tick.schedule, "at": ctx.tick.at, "job": ctx.job.id})


@book.actor(queue=QUEUE, retry=RETRY, once=lambda piece: piece.number)
def work(ctx: smena.Context, session: Session, /, piece: Piece) -> None:
    """Take effect once, on a thread."""
    session.execute(*effect(ctx, piece))
    time.sleep(piece.ms / 1000)


@book.actor(queue=QUEUE, retry=RETRY, once=lambda piece: piece.number)
async def awork(ctx: smena.Context, session: AsyncSession, /, piece: Piece) -> None:
    """Take effect once, on the event loop."""
    await session.execute(*effect(ctx, piece))
    await asyncio.sleep(piece.ms / 1000)


@book.actor(queue=QUEUE, retry=RETRY, once=lambda piece: piece.number)
def second_try(ctx: smena.Context, session: Session, /, piece: Piece) -> None:
    """Fail in the first attempt, take effect in the second."""
    session.execute(*effect(ctx, piece))
    if ctx.attempt == 1:
        raise smena.Transient("the first attempt of this job always fails")
    time.sleep(piece.ms / 1000)


@book.actor(queue=QUEUE, retry=RETRY)
def leased(ctx: smena.Context, /, piece: Piece) -> None:
    """Take effect once by a lease of the job's own: reserve, work outside any transaction, write under the term."""
    with ctx.transaction() as session:
        owner = f"{os.getpid()}-{uuid.uuid4().hex}"
        term = terms.take(session.connection(), f"{LEASES}{piece.number}", owner, LEASE_S)
        if session.scalar(_DONE, {"number": piece.number}):
            return  # under the new term nobody can write any more who has not yet
    if term is None:
        raise smena.Transient("another copy of this job holds its lease")
    time.sleep(piece.ms / 1000)
    with ctx.transaction() as session:
        session.execute(*effect(ctx, piece))
        fence(session, term)


@book.actor(queue=QUEUE, retry=RETRY)
async def spread(ctx: smena.Context, /, piece: Piece) -> None:
    """Take effect at the end of a long wait, as one of a thousand: no connection is held meanwhile.

    The effect is the job's own to guard: under a lock on its number, and only if it is not there.
    """
    statement, values = effect(ctx, piece)
    async with ctx.atransaction() as session:
        await session.execute(_START, values)
    await asyncio.sleep(piece.ms / 1000)
    async with ctx.atransaction() as session:
        await session.execute(_ALONE, {"number": piece.number})
        if not await session.scalar(_DONE, {"number": piece.number}):
            await session.execute(statement, values)


@book.actor(queue=QUEUE, retry=RETRY, time_limit=smena.TimeLimit(0.5, grace_s=1.0))
def hang(ctx: smena.Context, /, piece: Piece) -> None:
    """Wait for ever in C code, where no interruption reaches, when it is begun first; take effect the second time."""
    if _begins_first(ctx, piece):
        time.sleep(3600)
    with ctx.transaction() as session:
        session.execute(*effect(ctx, piece))


def _begins_first(ctx: smena.Context, piece: Piece) -> bool:
    """Note that the job has begun, for good; say whether it had not before."""
    _, values = effect(ctx, piece)
    with ctx.transaction() as session:
        begun = session.scalar(_BEGUN, values)
        session.execute(_START, values)
    return not begun


@book.actor(queue=QUEUE, retry=RETRY)
def segfault(ctx: smena.Context, /, piece: Piece) -> None:
    """Read where there is no memory, after a while beside others."""
    _begins_first(ctx, piece)
    time.sleep(piece.ms / 1000)
    ctypes.string_at(0)


@book.actor(queue=QUEUE, retry=RETRY)
def kills(ctx: smena.Context, /, piece: Piece) -> None:
    """Kill the process, as the kernel does when memory runs out, after a while beside others."""
    _begins_first(ctx, piece)
    time.sleep(piece.ms / 1000)
    os.kill(os.getpid(), signal.SIGKILL)


@book.actor(queue=QUEUE, retry=RETRY)
async def akills(ctx: smena.Context, /, piece: Piece) -> None:
    """Kill the process on the event loop, after a while beside others."""
    async with ctx.atransaction() as session:
        await session.execute(_START, effect(ctx, piece)[1])
    await asyncio.sleep(piece.ms / 1000)
    os.kill(os.getpid(), signal.SIGKILL)


@book.actor(queue=QUEUE, retry=smena.Retry(attempts=1))
def hoards(ctx: smena.Context, /, piece: Piece) -> None:
    """Take more memory in a CPU step than the pool allows; the machine has enough."""
    _begins_first(ctx, piece)
    time.sleep(piece.ms / 1000)
    ctx.cpu(_hoard)


@book.actor(queue=QUEUE, retry=smena.Retry(attempts=1))
def backtracks(ctx: smena.Context, /, piece: Piece) -> None:
    """Hold the interpreter in a regular expression that ends after years."""
    _begins_first(ctx, piece)
    time.sleep(piece.ms / 1000)
    re.match(r"(a+)+$", "a" * 64 + "b")


@book.actor(queue=QUEUE, retry=RETRY)
def item(ctx: smena.Context, session: Session, /, piece: Piece) -> None:
    """Be an item of a batch: take effect in the item's own transaction; every second one works before it writes."""
    if piece.number % 2:
        time.sleep(piece.ms / 1000)
    session.execute(*effect(ctx, piece))
    if not piece.number % 2:
        time.sleep(piece.ms / 1000)


@book.actor(queue=QUEUE, retry=RETRY)
def items(ctx: smena.Context, session: Session, /, pieces: list[Piece]) -> None:
    """Be a slice of a batch: take all effects in one transaction."""
    for piece in pieces:
        session.execute(*effect(ctx, piece))


@book.actor(queue=QUEUE, retry=RETRY)
def ended(batch: int, total: int, done: int, dead: int) -> None:
    """Hear of a batch's end; that it was sent is what the judge looks at."""


def _hoard() -> int:
    return len(bytearray(b"x") * (512 * 2**20))
