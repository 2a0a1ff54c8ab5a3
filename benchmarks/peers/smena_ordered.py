"""Smena with ``partition_by``: a no-op actor whose jobs start in the order of their keys."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final

import smena
from benchmarks import proof
from benchmarks.peers import Send
from benchmarks.peers.smena_app import sending_to

KEYS: Final = 2000
PARTITIONS: Final = 32

book = smena.Book("bench_ordered")


@book.actor(queue="bench_ordered", partition_by=lambda job: job % KEYS, partitions=PARTITIONS)
def apply(job: int) -> None:
    """Take effect and nothing else."""
    proof.seen(job)


def publisher() -> AbstractContextManager[Send]:
    """Connect as a service does."""
    return sending_to(apply)
