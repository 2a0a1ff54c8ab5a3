"""An actor that needs nothing but RabbitMQ."""

import os
import signal
import time
from pathlib import Path

import smena
from smena import Context, Retry

book = smena.Book("bare")


@book.actor(queue="jobs", retry=Retry(base_s=0.05, cap_s=0.1))
def fails(ctx: Context, /, times: int) -> None:
    """Fail that many times."""
    if ctx.attempt < times:
        raise ValueError(times)


@book.actor(queue="jobs")
def works(folder: str, key: str) -> None:
    """Take effect after a while in which others may do what they do."""
    time.sleep(0.2)
    (Path(folder) / f"worked-{key}-{os.getpid()}").touch()


@book.actor(queue="jobs")
def kills(folder: str) -> None:
    """Note that it runs, wait a moment for neighbours, and kill the process."""
    (Path(folder) / f"bitten-{os.getpid()}").touch()
    time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGKILL)
