"""Smena with ``once``, which order implies, and without order: a no-op actor."""

from __future__ import annotations

from contextlib import AbstractContextManager

import smena
from benchmarks import proof
from benchmarks.peers import Send
from benchmarks.peers.smena_app import sending_to

book = smena.Book("bench_unordered")


@book.actor(queue="bench_unordered", once=lambda job: str(job))
def apply(job: int) -> None:
    """Take effect and nothing else."""
    proof.seen(job)


def publisher() -> AbstractContextManager[Send]:
    """Connect as a service does."""
    return sending_to(apply)
