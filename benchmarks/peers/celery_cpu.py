"""Celery with CPU jobs, which its prefork processes compute themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks import proof
from benchmarks.peers import Send
from benchmarks.peers.celery_app import app
from benchmarks.peers.pool_steps import BURN_S, burn


@app.task(name="work")  # type: ignore[untyped-decorator]
def work(job: int) -> None:
    """Compute."""
    burn(BURN_S)
    proof.seen(job)


@contextmanager
def publisher() -> Iterator[Send]:
    """Send one after the other over one connection."""
    with app.producer_or_acquire() as producer:

        def send(jobs: Sequence[int]) -> None:
            for job in jobs:
                work.apply_async((job,), producer=producer)

        yield send
