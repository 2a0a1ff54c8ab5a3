"""The actors that do what is common: take effect, fail, wait for a cue, compute."""

import asyncio
import os
import sys
import time
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from smena import Context, Permanent, Retry, Transient
from tests.acceptance.jobs.ground import EFFECT, POLL_S, book, place, values


class RuleBroken(Permanent):
    """A rule of the business is broken."""

    code = "rule_broken"


@book.actor(queue="jobs")
def note(ctx: Context, /, key: str) -> None:
    """Take effect, as often as it is run."""
    with ctx.transaction() as session:
        session.execute(EFFECT, values(ctx, key))


@book.actor(queue="jobs", once=lambda key: key)
def note_once(ctx: Context, session: Session, /, key: str) -> None:
    """Take effect once for each key, whatever the job commits itself."""
    session.execute(EFFECT, values(ctx, key))
    session.commit()


@book.actor(queue="jobs", once=lambda key: key)
def leave_for_nowhere(ctx: Context, session: Session, /, key: str) -> None:
    """Take effect once, and leave the session where no table is."""
    session.execute(EFFECT, values(ctx, key))
    session.execute(sa.text("SET search_path TO nowhere"))


@book.actor(queue="jobs")
def note_item(ctx: Context, session: Session, /, number: int) -> None:
    """Take effect in a transaction of its own, in a little time."""
    session.execute(EFFECT, values(ctx, f"item-{number}"))
    time.sleep(0.002)


@book.actor(queue="jobs")
def note_in_order(ctx: Context, session: Session, /, number: int, *, keys: int) -> None:
    """Take effect in a transaction of its own, and say which item of its key came before."""
    key = number % keys
    behind = sa.text("SELECT max(CAST(split_part(key, '-', 3) AS int)) FROM effects WHERE key LIKE :of")
    before = session.scalar(behind, {"of": f"key-{key}-%"})
    if before != (number - keys if number >= keys else None):
        session.execute(EFFECT, values(ctx, f"disorder: {number} behind {before}"))
    session.execute(EFFECT, values(ctx, f"key-{key}-{number}"))
    time.sleep(0.002)


@book.actor(queue="jobs", once=lambda batch, **_counts: str(batch))
def note_end(ctx: Context, session: Session, /, batch: int, total: int, done: int, dead: int) -> None:
    """Keep what a batch came to."""
    session.execute(EFFECT, values(ctx, f"batch {batch}: {done} of {total} done, {dead} dead"))


@book.actor(queue="jobs", once=lambda key: key)
async def anote_once(ctx: Context, session: AsyncSession, /, key: str) -> None:
    """Take effect once for each key, on the event loop."""
    await session.execute(EFFECT, values(ctx, key))


@book.actor(queue="jobs", retry=Retry(base_s=0.1, cap_s=0.2))
def third_time(ctx: Context, /, key: str) -> None:
    """Fail twice, then take effect."""
    if ctx.attempt < 3:
        raise Transient("not yet")
    with ctx.transaction() as session:
        session.execute(EFFECT, values(ctx, key))


@book.actor(queue="jobs", retry=Retry(base_s=0.1, cap_s=0.2), once=lambda key: key)
def third_time_once(ctx: Context, session: Session, /, key: str) -> None:
    """Write, fail twice, then take effect once."""
    session.execute(EFFECT, values(ctx, key))
    if ctx.attempt < 3:
        raise Transient("not yet")


@book.actor(queue="jobs")
def broken_rule(key: str) -> None:
    """Fail for good."""
    raise RuleBroken(key=key)


@book.actor(queue="jobs", retry=Retry(base_s=0.05, cap_s=0.1))
def bug(how: str) -> None:
    """Fail as code fails that nobody thought of."""
    if how == "exit":
        sys.exit(1)
    raise KeyError(how)


class Liar(Exception):
    """An error that raises when it is asked what it is."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """Fail."""
        raise KeyboardInterrupt


@book.actor(queue="jobs", retry=Retry(base_s=0.05, cap_s=0.1))
def lies(key: str) -> None:
    """Fail with an error that cannot be looked at."""
    raise Liar(key)


@book.actor(queue="jobs", retry=Retry(base_s=0.05, cap_s=0.1))
async def alies(key: str) -> None:
    """Do the same on the event loop."""
    raise Liar(key)


@book.actor(queue="jobs", once=lambda key: key, retry=Retry(base_s=0.05, cap_s=0.1))
def lies_in_session(ctx: Context, session: Session, /, key: str) -> None:
    """Do the same after writing."""
    session.execute(EFFECT, values(ctx, key))
    raise Liar(key)


@book.actor(queue="jobs")
def hold(ctx: Context, session: Session, /, key: str) -> None:
    """Say that it runs, wait for the cue `let-go`, take effect."""
    folder = ctx.resource(place)
    (folder / f"running-{key}").touch()
    while not (folder / "let-go").exists():
        time.sleep(POLL_S)
    session.execute(EFFECT, values(ctx, key))


@book.actor(queue="jobs")
async def ahold(ctx: Context, session: AsyncSession, /, key: str) -> None:
    """Do the same on the event loop."""
    folder = ctx.resource(place)
    (folder / f"running-{key}").touch()
    while not (folder / "let-go").exists():
        await asyncio.sleep(POLL_S)
    await session.execute(EFFECT, values(ctx, key))


_LEAKED: list[bytes] = []


@book.actor(queue="jobs")
def leak(ctx: Context, session: Session, /, key: str, mebibytes: int) -> None:
    """Take effect, and never let go of that much memory."""
    _LEAKED.append(b"x" * (mebibytes << 20))
    session.execute(EFFECT, values(ctx, key))


def crunch(folder: str, key: str) -> int:
    """Say where it runs, wait for the cue `let-go`; a CPU step."""
    pid = os.getpid()
    part = Path(folder) / f"part-{key}-{pid}"
    part.write_text(str(pid), encoding="ascii")
    part.rename(Path(folder) / f"step-{key}")
    while not (Path(folder) / "let-go").exists():
        time.sleep(POLL_S)
    return pid


@book.actor(queue="jobs", retry=Retry(base_s=0.1, cap_s=0.2))
def compute(ctx: Context, session: Session, /, key: str) -> None:
    """Take effect with the process of its CPU step."""
    pid = ctx.cpu(crunch, str(ctx.resource(place)), key, timeout_s=60)
    session.execute(EFFECT, {**values(ctx, key), "pid": pid})


@book.actor(queue="jobs", retry=Retry(base_s=0.1, cap_s=0.2))
async def acompute(ctx: Context, session: AsyncSession, /, key: str) -> None:
    """Do the same on the event loop."""
    pid = await ctx.acpu(crunch, str(ctx.resource(place)), key, timeout_s=60)
    await session.execute(EFFECT, {**values(ctx, key), "pid": pid})


@book.actor(queue="jobs", once=lambda key: key)
def with_follow_up(ctx: Context, session: Session, /, key: str, fails: bool) -> None:
    """Take effect and send a follow-up in the same transaction; with ``fails`` neither must be seen."""
    session.execute(EFFECT, values(ctx, key))
    note.send(f"{key}-follow-up")
    if fails:
        raise RuleBroken(key=key)


@book.actor(queue="jobs", once=lambda key: key)
def slow_note(ctx: Context, /, key: str) -> None:
    """Take effect once, after a while in which others may do what they do, such as kill it between commit and ack."""
    time.sleep(POLL_S * 10)
    with ctx.transaction() as session:
        session.execute(EFFECT, values(ctx, key))
