"""Smena itself: one plain no-op actor without ``once``, run by the README's own command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import smena
from benchmarks import proof
from benchmarks.peers import Send

book = smena.Book("bench")


@book.actor(queue="bench")
def noop(job: int) -> None:
    """Take effect and nothing else."""
    proof.seen(job)


def publisher() -> AbstractContextManager[Send]:
    """Connect as a service does."""
    return sending_to(noop)


@contextmanager
def sending_to(actor: smena.Actor[[int], Any]) -> Iterator[Send]:
    """Send to an actor, each job confirmed."""

    def send(jobs: Sequence[int]) -> None:
        if len(jobs) == 1:
            actor.send(jobs[0])
            return
        for error in smena.send_many([actor.message(job) for job in jobs]):
            if error is not None:
                raise error

    with smena.connect():
        yield send
