"""Plain Dramatiq with CPU jobs: a process for each core, one thread each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import dramatiq

from benchmarks import proof
from benchmarks.peers import Send
from benchmarks.peers.plain_dramatiq import broker
from benchmarks.peers.pool_steps import BURN_S, burn

__all__ = ["broker", "publisher", "work"]


@dramatiq.actor(queue_name="bench_dramatiq_cpu", max_retries=3)
def work(job: int) -> None:
    """Compute."""
    burn(BURN_S)
    proof.seen(job)


@contextmanager
def publisher() -> Iterator[Send]:
    """Send one after the other, which is the only way that Dramatiq has."""

    def send(jobs: Sequence[int]) -> None:
        for job in jobs:
            work.send(job)

    yield send
    broker.close()
