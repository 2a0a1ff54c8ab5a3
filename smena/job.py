"""Hold one accepted piece of work.

A `Job` is what travels: the fields of Dramatiq's message, and beside them the few facts that Smena
carries in AMQP headers. It is a value; every change makes a new one. A job in flight is told from its
other copies by (id, attempt).

A `msgspec.Struct` rather than a dataclass: one is made for every delivery, and it costs a third.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from smena.delay import Delay, seconds_of

_VARIANT: Final = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}

NO_DELAY: Final = "a job of an ordered actor cannot be delayed: it would overtake, or hold up, the others of its key"


SCHEDULE: Final = "schedule"
SCHEDULED_AT: Final = "scheduled-at"
"""Headers by which the job of a tick knows its schedule and its planned time; carried along like any sender's."""


class Tick(NamedTuple):
    """One moment of a schedule: its name, and the time that was planned."""

    schedule: str
    at: datetime


def new_id() -> str:
    """Return a random UUID (RFC 9562, version 4) as text; `uuid.uuid4` is four times the price."""
    digits = os.urandom(16).hex()
    variant = _VARIANT[digits[16]]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of work, as it was sent, in its current attempt.

    ``args`` and ``kwargs`` hold JSON values only (str, int, float, bool, None, list, dict): they were
    made so at the sender's door. Times are milliseconds since the Unix epoch, as in Dramatiq.
    ``headers`` are the sender's own AMQP headers (neither ``smena-…`` nor the broker's), carried along.
    A job of an ordered actor goes to ``partition`` of its queue, in the order of ``partition_key``.
    """

    actor: str
    queue: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = msgspec.field(default_factory=dict)
    options: dict[str, Any] = msgspec.field(default_factory=dict)
    id: str = msgspec.field(default_factory=new_id)
    timestamp_ms: int = 0
    attempt: int = 1
    snoozes: int = 0
    first_enqueued_at_ms: int = 0
    deadline_ms: int | None = None
    request_id: str | None = None
    traceparent: str | None = None
    partition_key: str | None = None
    partition: int | None = None
    headers: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def tick(self) -> Tick | None:
        """Return which tick of which schedule this is the job of, or None."""
        name, at = self.headers.get(SCHEDULE), self.headers.get(SCHEDULED_AT)
        if not isinstance(name, str) or not isinstance(at, str):
            return None
        try:
            return Tick(name, datetime.fromisoformat(at).astimezone(UTC))
        except (ValueError, OverflowError):
            return None

    def of_tick(self, tick: Tick) -> Job:
        """Return the job as that of a tick."""
        at = tick.at.astimezone(UTC).isoformat()
        return self.replace(headers={**self.headers, SCHEDULE: tick.schedule, SCHEDULED_AT: at})

    def facts(self, actor: str | None = None) -> dict[str, Any]:
        """Return what events say of a job; ``actor`` is the name it is declared by, where the job has an older one."""
        return {
            "job": self.id,
            "actor": actor or self.actor,
            "queue": self.queue,
            "attempt": self.attempt,
            "request_id": self.request_id,
        }

    def replace(self, **changes: Any) -> Job:
        """Return a copy with some fields changed."""
        return msgspec.structs.replace(self, **changes)

    def expires_in(self, limit: Delay) -> Job:
        """Return the job with a deadline, seconds (or a `timedelta`) after it was made: it does not run beyond it."""
        return self.replace(deadline_ms=self.timestamp_ms + round(seconds_of(limit) * 1000))

    def next_attempt(self) -> Job:
        """Return the job as its retry: same id, one attempt more, no snoozes yet."""
        return self.replace(attempt=self.attempt + 1, snoozes=0)

    def snoozed(self) -> Job:
        """Return the job as it comes back from a snooze: no attempt spent."""
        return self.replace(snoozes=self.snoozes + 1)


def refuse_strangers(sent: object) -> None:
    """Raise `TypeError` for what is no list or tuple of jobs, before any of it is sent."""
    if not isinstance(sent, Sequence):
        raise TypeError(f"many jobs are a list of them, not {type(sent).__name__}")
    for one in sent:
        if not isinstance(one, Job):
            raise TypeError(f"what is sent is a job, as actor.message(…) makes it, not {type(one).__name__}")
