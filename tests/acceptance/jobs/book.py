"""The actors. Each effect is a row in the table `effects` (key, actor, attempt, process)."""

import asyncio
import contextlib
import ctypes
import logging
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

import smena
from smena import Context, Permanent, Retry, TimeLimit, Transient

POLL_S = 0.02

CREATE = "CREATE TABLE effects (key text, actor text, attempt int, pid int)"
_EFFECT = sa.text("INSERT INTO effects VALUES (:key, :actor, :attempt, :pid)")


class Place(BaseModel):
    """Where cues are given."""

    folder: Path


class RuleBroken(Permanent):
    """A rule of the business is broken."""

    code = "rule_broken"


def _refuse_to_load() -> None:
    """Stand for a book that a pool's server cannot load, while the cue `pool-is-broken` stands."""
    folder = os.environ.get("SMENA_APP_FOLDER")
    if sys.argv[0].endswith("wiring/pool.py") and folder and (Path(folder) / "pool-is-broken").exists():
        raise RuntimeError("the pool is to be broken")


_refuse_to_load()
book = smena.Book("jobs")


@book.resource
def place() -> Iterator[Path]:
    """Give the folder of the cues, and leave a mark when closed."""
    folder = smena.app_settings(Place).folder
    yield folder
    (folder / f"closed-{os.getpid()}").touch()


def _values(ctx: Context, key: str) -> dict[str, object]:
    return {"key": key, "actor": ctx.actor, "attempt": ctx.attempt, "pid": os.getpid()}


@book.actor(queue="jobs")
def note(ctx: Context, /, key: str) -> None:
    """Take effect, as often as it is run."""
    with ctx.transaction() as session:
        session.execute(_EFFECT, _values(ctx, key))


@book.actor(queue="jobs", once=lambda key: key)
def note_once(ctx: Context, session: Session, /, key: str) -> None:
    """Take effect once for each key, whatever the job commits itself."""
    session.execute(_EFFECT, _values(ctx, key))
    session.commit()


@book.actor(queue="jobs")
def note_item(ctx: Context, session: Session, /, number: int) -> None:
    """Take effect in a transaction of its own, in a little time."""
    session.execute(_EFFECT, _values(ctx, f"item-{number}"))
    time.sleep(0.002)


@book.actor(queue="jobs")
def note_in_order(ctx: Context, session: Session, /, number: int, *, keys: int) -> None:
    """Take effect in a transaction of its own, and say which item of its key came before."""
    key = number % keys
    behind = sa.text("SELECT max(CAST(split_part(key, '-', 3) AS int)) FROM effects WHERE key LIKE :of")
    before = session.scalar(behind, {"of": f"key-{key}-%"})
    if before != (number - keys if number >= keys else None):
        session.execute(_EFFECT, _values(ctx, f"disorder: {number} behind {before}"))
    session.execute(_EFFECT, _values(ctx, f"key-{key}-{number}"))
    time.sleep(0.002)


@book.actor(queue="jobs", once=lambda batch, **_counts: str(batch))
def note_end(ctx: Context, session: Session, /, batch: int, total: int, done: int, dead: int) -> None:
    """Keep what a batch came to."""
    session.execute(_EFFECT, _values(ctx, f"batch {batch}: {done} of {total} done, {dead} dead"))


@book.actor(queue="jobs", once=lambda key: key)
async def anote_once(ctx: Context, session: AsyncSession, /, key: str) -> None:
    """Take effect once for each key, on the event loop."""
    await session.execute(_EFFECT, _values(ctx, key))


@book.actor(queue="jobs", retry=Retry(base_s=0.1, cap_s=0.2))
def third_time(ctx: Context, /, key: str) -> None:
    """Fail twice, then take effect."""
    if ctx.attempt < 3:
        raise Transient("not yet")
    with ctx.transaction() as session:
        session.execute(_EFFECT, _values(ctx, key))


@book.actor(queue="jobs", retry=Retry(base_s=0.1, cap_s=0.2), once=lambda key: key)
def third_time_once(ctx: Context, session: Session, /, key: str) -> None:
    """Write, fail twice, then take effect once."""
    session.execute(_EFFECT, _values(ctx, key))
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


@book.actor(queue="jobs")
def hold(ctx: Context, session: Session, /, key: str) -> None:
    """Say that it runs, wait for the cue `let-go`, take effect."""
    folder = ctx.resource(place)
    (folder / f"running-{key}").touch()
    while not (folder / "let-go").exists():
        time.sleep(POLL_S)
    session.execute(_EFFECT, _values(ctx, key))


@book.actor(queue="jobs")
async def ahold(ctx: Context, session: AsyncSession, /, key: str) -> None:
    """Do the same on the event loop."""
    folder = ctx.resource(place)
    (folder / f"running-{key}").touch()
    while not (folder / "let-go").exists():
        await asyncio.sleep(POLL_S)
    await session.execute(_EFFECT, _values(ctx, key))


_LEAKED: list[bytes] = []


@book.actor(queue="jobs")
def leak(ctx: Context, session: Session, /, key: str, mebibytes: int) -> None:
    """Take effect, and never let go of that much memory."""
    _LEAKED.append(b"x" * (mebibytes << 20))
    session.execute(_EFFECT, _values(ctx, key))


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
    session.execute(_EFFECT, {**_values(ctx, key), "pid": pid})


@book.actor(queue="jobs", retry=Retry(base_s=0.1, cap_s=0.2))
async def acompute(ctx: Context, session: AsyncSession, /, key: str) -> None:
    """Do the same on the event loop."""
    pid = await ctx.acpu(crunch, str(ctx.resource(place)), key, timeout_s=60)
    await session.execute(_EFFECT, {**_values(ctx, key), "pid": pid})


@book.actor(queue="jobs")
async def astray(ctx: Context, session: AsyncSession, /, key: str) -> None:
    """Take effect, and leave behind a callback whose error nobody will catch."""
    await session.execute(_EFFECT, _values(ctx, key))
    asyncio.get_running_loop().call_soon(_gone_astray)


def _lives(pid: str) -> bool:
    """Say whether a process may still run code of its own: one that is ending has let go of its files before."""
    try:
        return any(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def _second_time(ctx: Context, key: str) -> bool:
    """Say whether the job ran before; the first time leave the process's id, the second what became of it."""
    mark = ctx.resource(place) / f"first-{key}"
    if not mark.exists():
        mark.write_text(str(os.getpid()), encoding="ascii")
        return False
    lives = _lives(mark.read_text(encoding="ascii"))
    (ctx.resource(place) / f"second-{key}").write_text("beside the first" if lives else "after the first")
    return True


@book.actor(queue="jobs", time_limit=TimeLimit(0.3, grace_s=0.5), retry=Retry(base_s=0.1, cap_s=0.2))
def oversleep(ctx: Context, /, key: str) -> None:
    """Sleep in C code, where no interruption reaches; take effect the second time."""
    if not _second_time(ctx, key):
        time.sleep(3600)
    with ctx.transaction() as session:
        session.execute(_EFFECT, _values(ctx, key))


@book.actor(queue="jobs")
def overrun(ctx: Context, /, key: str) -> None:
    """Sleep in C code without a limit the first time; take effect the second."""
    if not _second_time(ctx, key):
        time.sleep(3600)
    with ctx.transaction() as session:
        session.execute(_EFFECT, _values(ctx, key))


@book.actor(queue="jobs", time_limit=TimeLimit(0.3, grace_s=0.5), retry=Retry(base_s=0.1, cap_s=0.2))
async def aoversleep(ctx: Context, /, key: str) -> None:
    """Swallow every cancellation; take effect the second time."""
    if not _second_time(ctx, key):
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)
    async with ctx.atransaction() as session:
        await session.execute(_EFFECT, _values(ctx, key))


@book.actor(queue="jobs", time_limit=TimeLimit(0.3, grace_s=20), retry=Retry(base_s=0.1, cap_s=0.2))
def slow_statement(ctx: Context, session: Session, /, key: str) -> None:
    """Wait for a statement the first time; take effect the second."""
    session.execute(_EFFECT, _values(ctx, key))
    if not _second_time(ctx, key):
        session.execute(sa.text("SELECT pg_sleep(600)"))


@book.actor(queue="jobs", time_limit=TimeLimit(0.3, grace_s=20), retry=Retry(base_s=0.1, cap_s=0.2))
def slow_transaction(ctx: Context, /, key: str) -> None:
    """Do the same in a transaction that the job opens itself."""
    with ctx.transaction() as session:
        session.execute(_EFFECT, _values(ctx, key))
        if not _second_time(ctx, key):
            session.execute(sa.text("SELECT pg_sleep(600)"))


@book.actor(
    queue="jobs", time_limit=TimeLimit(0.3, grace_s=20), retry=Retry(base_s=0.1, cap_s=0.2), once=lambda key: key
)
def slow_once(ctx: Context, session: Session, /, key: str) -> None:
    """Do the same under a key."""
    session.execute(_EFFECT, _values(ctx, key))
    if not _second_time(ctx, key):
        session.execute(sa.text("SELECT pg_sleep(600)"))


@book.actor(queue="jobs", time_limit=TimeLimit(0.3, grace_s=20), retry=Retry(base_s=0.1, cap_s=0.2))
async def aslow_statement(ctx: Context, session: AsyncSession, /, key: str) -> None:
    """Do the same on the event loop."""
    await session.execute(_EFFECT, _values(ctx, key))
    if not _second_time(ctx, key):
        await session.execute(sa.text("SELECT pg_sleep(600)"))


@book.actor(queue="jobs", time_limit=TimeLimit(0.3, grace_s=20), retry=Retry(base_s=0.1, cap_s=0.2))
async def atslow_transaction(ctx: Context, /, key: str) -> None:
    """Do the same on the event loop in a transaction that the job opens itself."""
    async with ctx.atransaction() as session:
        await session.execute(_EFFECT, _values(ctx, key))
        if not _second_time(ctx, key):
            await session.execute(sa.text("SELECT pg_sleep(600)"))


@book.actor(queue="jobs", time_limit=TimeLimit(4, grace_s=20), retry=Retry(base_s=0.1, cap_s=0.2))
def slow_step(ctx: Context, /, key: str) -> None:
    """Wait for a CPU step the first time; take effect the second."""
    if not _second_time(ctx, key):
        ctx.cpu(time.sleep, 600)
    with ctx.transaction() as session:
        session.execute(_EFFECT, _values(ctx, key))


@book.actor(queue="jobs")
def backtrack(ctx: Context, /, key: str) -> None:
    """Hold the interpreter in a regular expression the first time; take effect the second."""
    if not _second_time(ctx, key):
        re.match(r"(a+)+$", "a" * 64 + "b")
    with ctx.transaction() as session:
        session.execute(_EFFECT, _values(ctx, key))


@book.actor(queue="jobs", retry=Retry(base_s=0.1, cap_s=0.2))
async def abacktrack(ctx: Context, /, key: str) -> None:
    """Hold the event loop and the interpreter in the first attempt, wherever it runs; take effect in the second."""
    if ctx.attempt == 1:
        (ctx.resource(place) / f"held-{key}-{os.getpid()}").touch()
        await asyncio.sleep(POLL_S * 10)
        re.match(r"(a+)+$", "a" * 64 + "b")
    async with ctx.atransaction() as session:
        await session.execute(_EFFECT, _values(ctx, key))


@book.actor(queue="jobs", time_limit=TimeLimit(0.3, grace_s=0.5), retry=Retry(base_s=0.1, cap_s=0.2))
def dies_then_hangs(ctx: Context, /, key: str) -> None:
    """Kill the process, then hang where no interruption reaches; take effect in the second attempt."""
    if ctx.attempt == 1:
        if not _second_time(ctx, key):
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(3600)
    with ctx.transaction() as session:
        session.execute(_EFFECT, _values(ctx, key))


def _gone_astray() -> None:
    raise ZeroDivisionError("gone astray")


@book.actor(queue="jobs", once=lambda key: key)
def with_follow_up(ctx: Context, session: Session, /, key: str, fails: bool) -> None:
    """Take effect and send a follow-up in the same transaction; with ``fails`` neither must be seen."""
    session.execute(_EFFECT, _values(ctx, key))
    note.send(f"{key}-follow-up")
    if fails:
        raise RuleBroken(key=key)


def _die(how: str) -> None:
    """End this process as the worst of jobs do."""
    match how:
        case "SIGKILL":
            os.kill(os.getpid(), signal.SIGKILL)
        case "SIGSEGV":
            ctypes.string_at(0)
        case "exit":
            os._exit(0)
        case "exit 2":
            os._exit(2)
        case "TERM":
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(POLL_S * 10)
            os._exit(7)
        case "hog":
            hoard = bytearray(b"x") * (256 * 2**20)
            os.kill(os.getpid(), len(hoard) and signal.SIGKILL)
        case "closes all":
            os.closerange(3, 4096)
            time.sleep(600)


@book.actor(queue="jobs")
def poison(ctx: Context, /, how: str) -> None:
    """Note that it runs, say a last word, wait a moment for neighbours, and kill the process."""
    folder = ctx.resource(place)
    logging.getLogger("poison").warning("%s is what I am", how)
    (folder / f"bitten-{os.getpid()}-{ctx.job.id}").touch()
    time.sleep(POLL_S * 5)
    _die(how)


@book.actor(queue="jobs")
def strays(ctx: Context, /, key: str) -> None:
    """Start a thread that dies of an error, and take effect after longer than the test's drain."""
    threading.Thread(target=_gone_astray, name="strayed").start()
    time.sleep(POLL_S * 100)
    with ctx.transaction() as session:
        session.execute(_EFFECT, _values(ctx, key))


@book.actor(queue="jobs")
async def apoison(ctx: Context, /, how: str) -> None:
    """Do the same on the event loop."""
    folder = ctx.resource(place)
    (folder / f"bitten-{os.getpid()}-{ctx.job.id}").touch()
    await asyncio.sleep(POLL_S * 5)
    _die(how)


@book.actor(queue="jobs", once=lambda key: key)
def slow_note(ctx: Context, /, key: str) -> None:
    """Take effect once, after a while in which others may do what they do, such as kill it between commit and ack."""
    time.sleep(POLL_S * 10)
    with ctx.transaction() as session:
        session.execute(_EFFECT, _values(ctx, key))
