"""Smena with CPU jobs: a plain actor whose step runs in the process pool."""

from __future__ import annotations

from contextlib import AbstractContextManager

import smena
from benchmarks import proof
from benchmarks.peers import Send
from benchmarks.peers.pool_steps import BURN_S, burn
from benchmarks.peers.smena_app import sending_to

book = smena.Book("cpu")


@book.actor(queue="bench_cpu")
def work(ctx: smena.Context, /, job: int) -> None:
    """Compute in the pool."""
    ctx.cpu(burn, BURN_S)
    proof.seen(job)


def publisher() -> AbstractContextManager[Send]:
    """Connect as a service does."""
    return sending_to(work)
