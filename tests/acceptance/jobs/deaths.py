"""The actors that end their process, or break what their neighbours stand on."""

import asyncio
import ctypes
import logging
import os
import resource
import signal
import threading
import time
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from smena import Context, Retry, TimeLimit
from tests.acceptance.jobs.ground import EFFECT, POLL_S, book, place, second_time, values


@book.actor(queue="jobs")
async def astray(ctx: Context, session: AsyncSession, /, key: str) -> None:
    """Take effect, and leave behind a callback whose error nobody will catch."""
    await session.execute(EFFECT, values(ctx, key))
    asyncio.get_running_loop().call_soon(_gone_astray)


@book.actor(queue="jobs", time_limit=TimeLimit(1.5, grace_s=0.5), retry=Retry(base_s=0.1, cap_s=0.2))
def dies_then_hangs(ctx: Context, /, key: str) -> None:
    """Kill the process, then hang where no interruption reaches; take effect in the second attempt."""
    if ctx.attempt == 1:
        if not second_time(ctx, key):
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(3600)
    with ctx.transaction() as session:
        session.execute(EFFECT, values(ctx, key))


@book.actor(queue="jobs")
def hoards(ctx: Context, session: Session, /, key: str) -> None:
    """Take effect, and leave the process without a descriptor to open anything with."""
    session.execute(EFFECT, values(ctx, key))
    resource.setrlimit(resource.RLIMIT_NOFILE, (5, 5))


def _gone_astray() -> None:
    raise ZeroDivisionError("gone astray")


def _break(how: str) -> None:
    """Take away what this process stands on, and go on."""
    match how:
        case "raises in all threads":
            _raise_in_all_threads()
        case "closes all and returns":
            os.closerange(3, 4096)
        case "null over all and returns":
            _put_null_over_all()


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
        case "SIGSTOP":
            os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(600)  # another thread may take the signal, and this one go on for a moment
        case "closes all":
            os.closerange(3, 4096)
            time.sleep(600)


def _put_null_over_all() -> None:
    """Make another file of each descriptor that is open."""
    null = os.open("/dev/null", os.O_RDWR)
    for number in {int(file.name) for file in Path("/proc/self/fd").iterdir()} - {0, 1, 2, null}:
        os.dup2(null, number)


def _raise_in_all_threads() -> None:
    """Raise in all but those that run jobs: what is raised there is told as an error of the neighbour's own."""
    for thread in threading.enumerate():
        if not thread.name.startswith("slot-"):
            ident = ctypes.c_ulong(thread.ident or 0)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(ValueError))


@book.actor(queue="jobs")
def poison(ctx: Context, /, how: str) -> None:
    """Note that it runs, say a last word, wait a moment for neighbours, and kill the process."""
    folder = ctx.resource(place)
    logging.getLogger("poison").warning("%s is what I am", how)
    (folder / f"bitten-{os.getpid()}-{ctx.job.id}").touch()
    time.sleep(POLL_S * 5)
    _die(how)


@book.actor(queue="jobs")
def breaker(ctx: Context, /, how: str) -> None:
    """Note that it runs, wait a moment for neighbours, break what the process stands on, and return."""
    folder = ctx.resource(place)
    (folder / f"bitten-{os.getpid()}-{ctx.job.id}").touch()
    time.sleep(POLL_S * 5)
    _break(how)


@book.actor(queue="jobs")
def strays(ctx: Context, /, key: str) -> None:
    """Start a thread that dies of an error, and take effect after longer than the test's drain."""
    threading.Thread(target=_gone_astray, name="strayed").start()
    time.sleep(POLL_S * 100)
    with ctx.transaction() as session:
        session.execute(EFFECT, values(ctx, key))


@book.actor(queue="jobs")
async def apoison(ctx: Context, /, how: str) -> None:
    """Do the same on the event loop."""
    folder = ctx.resource(place)
    (folder / f"bitten-{os.getpid()}-{ctx.job.id}").touch()
    await asyncio.sleep(POLL_S * 5)
    _die(how)
