"""Smena itself: one plain no-op actor without ``once``, run by the README's own command."""

from __future__ import annotations

import smena
from benchmarks import proof

QUEUE = "bench"

book = smena.Book("bench")


@book.actor(queue=QUEUE)
def noop(job: int) -> None:
    """Take effect and nothing else."""
    proof.seen(job)


def fill(jobs: int) -> None:
    """Send that many jobs, each confirmed."""
    with smena.connect():
        for start in range(0, jobs, 5000):
            batch = [noop.message(job) for job in range(start, min(start + 5000, jobs))]
            for error in smena.send_many(batch):
                if error is not None:
                    raise error
