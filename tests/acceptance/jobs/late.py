"""The actors that take too long, the first time at least; the second time they take effect."""

import asyncio
import contextlib
import os
import re
import time

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from smena import Context, Retry, TimeLimit
from tests.acceptance.jobs.ground import EFFECT, POLL_S, book, place, second_time, values


@book.actor(queue="jobs", time_limit=TimeLimit(1.5, grace_s=0.5), retry=Retry(base_s=0.1, cap_s=0.2))
def oversleep(ctx: Context, /, key: str) -> None:
    """Sleep in C code, where no interruption reaches; take effect the second time."""
    if not second_time(ctx, key):
        time.sleep(3600)
    with ctx.transaction() as session:
        session.execute(EFFECT, values(ctx, key))


@book.actor(queue="jobs")
def overrun(ctx: Context, /, key: str) -> None:
    """Sleep in C code without a limit the first time; take effect the second."""
    if not second_time(ctx, key):
        time.sleep(3600)
    with ctx.transaction() as session:
        session.execute(EFFECT, values(ctx, key))


@book.actor(queue="jobs", time_limit=TimeLimit(1.5, grace_s=0.5), retry=Retry(base_s=0.1, cap_s=0.2))
async def aoversleep(ctx: Context, /, key: str) -> None:
    """Swallow every cancellation; take effect the second time."""
    if not second_time(ctx, key):
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)
    async with ctx.atransaction() as session:
        await session.execute(EFFECT, values(ctx, key))


@book.actor(queue="jobs", time_limit=TimeLimit(1.5, grace_s=20), retry=Retry(base_s=0.1, cap_s=0.2))
def slow_statement(ctx: Context, session: Session, /, key: str) -> None:
    """Wait for a statement the first time; take effect the second."""
    session.execute(EFFECT, values(ctx, key))
    if not second_time(ctx, key):
        session.execute(sa.text("SELECT pg_sleep(600)"))


@book.actor(queue="jobs", time_limit=TimeLimit(1.5, grace_s=20), retry=Retry(base_s=0.1, cap_s=0.2))
def slow_transaction(ctx: Context, /, key: str) -> None:
    """Do the same in a transaction that the job opens itself."""
    with ctx.transaction() as session:
        session.execute(EFFECT, values(ctx, key))
        if not second_time(ctx, key):
            session.execute(sa.text("SELECT pg_sleep(600)"))


@book.actor(
    queue="jobs", time_limit=TimeLimit(1.5, grace_s=20), retry=Retry(base_s=0.1, cap_s=0.2), once=lambda key: key
)
def slow_once(ctx: Context, session: Session, /, key: str) -> None:
    """Do the same under a key."""
    session.execute(EFFECT, values(ctx, key))
    if not second_time(ctx, key):
        session.execute(sa.text("SELECT pg_sleep(600)"))


@book.actor(queue="jobs", time_limit=TimeLimit(1.5, grace_s=20), retry=Retry(base_s=0.1, cap_s=0.2))
async def aslow_statement(ctx: Context, session: AsyncSession, /, key: str) -> None:
    """Do the same on the event loop."""
    await session.execute(EFFECT, values(ctx, key))
    if not second_time(ctx, key):
        await session.execute(sa.text("SELECT pg_sleep(600)"))


@book.actor(queue="jobs", time_limit=TimeLimit(1.5, grace_s=20), retry=Retry(base_s=0.1, cap_s=0.2))
async def atslow_transaction(ctx: Context, /, key: str) -> None:
    """Do the same on the event loop in a transaction that the job opens itself."""
    async with ctx.atransaction() as session:
        await session.execute(EFFECT, values(ctx, key))
        if not second_time(ctx, key):
            await session.execute(sa.text("SELECT pg_sleep(600)"))


@book.actor(queue="jobs", time_limit=TimeLimit(4, grace_s=20), retry=Retry(base_s=0.1, cap_s=0.2))
def slow_step(ctx: Context, /, key: str) -> None:
    """Wait for a CPU step the first time; take effect the second."""
    if not second_time(ctx, key):
        ctx.cpu(time.sleep, 600)
    with ctx.transaction() as session:
        session.execute(EFFECT, values(ctx, key))


@book.actor(queue="jobs")
def backtrack(ctx: Context, /, key: str) -> None:
    """Hold the interpreter in a regular expression the first time; take effect the second."""
    if not second_time(ctx, key):
        re.match(r"(a+)+$", "a" * 64 + "b")
    with ctx.transaction() as session:
        session.execute(EFFECT, values(ctx, key))


@book.actor(queue="jobs", retry=Retry(base_s=0.1, cap_s=0.2))
async def abacktrack(ctx: Context, /, key: str) -> None:
    """Hold the event loop and the interpreter in the first attempt, wherever it runs; take effect in the second."""
    if ctx.attempt == 1:
        (ctx.resource(place) / f"held-{key}-{os.getpid()}").touch()
        await asyncio.sleep(POLL_S * 10)
        re.match(r"(a+)+$", "a" * 64 + "b")
    async with ctx.atransaction() as session:
        await session.execute(EFFECT, values(ctx, key))
