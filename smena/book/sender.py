"""Hold the one way out that this process sends jobs by.

A process binds it once: `smena.connect()` in a service, the wiring in the fleet. Whoever sends without
one is told so. Tests and short scripts use `bound` for a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

from smena.delay import Delay, seconds_of
from smena.errors import Misused, SmenaError
from smena.job import Job


class Sender(Protocol):
    """Take jobs over: when a call returns, the job is durable."""

    def send(self, job: Job, *, delay_s: float = 0.0) -> None:
        """Send one job; raise a `SmenaError` when it was not taken over."""

    async def asend(self, job: Job, *, delay_s: float = 0.0) -> None:
        """Send one job from an event loop; raise a `SmenaError` when it was not taken over."""

    def send_many(self, jobs: Sequence[Job]) -> list[SmenaError | None]:
        """Send many at once; return one outcome for each, in order: None, or why it was not taken over."""


SenderT = TypeVar("SenderT", bound=Sender)

_bound: list[Sender] = []
"""The process's sender, and above it those of open `bound` blocks."""


def bind_sender(sender: Sender) -> None:
    """Let this process send by ``sender``; raise `Misused` if it is bound already."""
    if _bound:
        raise Misused("this process is connected already; connect once and share it")
    _bound.append(sender)


def unbind_sender(sender: Sender) -> None:
    """Undo `bind_sender`; nothing happens if another sender is bound."""
    if sender in _bound:
        _bound.remove(sender)


@contextmanager
def bound(sender: SenderT) -> Iterator[SenderT]:
    """Send by ``sender`` inside the block, whatever the process is bound to outside."""
    _bound.append(sender)
    try:
        yield sender
    finally:
        _bound.remove(sender)


def sender() -> Sender:
    """Return the process's sender, or raise `Misused` when none is bound."""
    if not _bound:
        raise Misused("nothing to send by: call smena.connect() once when the process starts")
    return _bound[-1]


def send(job: Job, *, delay_s: Delay = 0.0) -> Job:
    """Send a job that was made with ``actor.message(…)``, after ``delay_s`` (seconds, or a `timedelta`) if given.

    Raise `Unsendable` for a delay that is no time from now on.
    """
    sender().send(job, delay_s=seconds_of(delay_s))
    return job


async def asend(job: Job, *, delay_s: Delay = 0.0) -> Job:
    """Send a job from an event loop; the twin of `send`."""
    await sender().asend(job, delay_s=seconds_of(delay_s))
    return job


def send_many(jobs: Sequence[Job]) -> list[SmenaError | None]:
    """Send many jobs at once; return one outcome for each, in order: None, or why it was not taken over."""
    return sender().send_many(jobs)
