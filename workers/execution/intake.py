"""Take deliveries from the consumer and send each where it belongs.

Runs on the link thread, so it only decodes and sorts: a delivery that may have been settled before
goes to the `Recall`, a plain actor's to the threads, an async one's to the event loop. What cannot
become an attempt (bad bytes, an actor nobody here knows) goes straight to the settler. Whatever
happens to one delivery, the next ones are served.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from smena.amqp import codec
from smena.backoff import Backoff
from smena.errors import Undecodable, UnknownActor
from smena.job import Job
from smena.telemetry import events
from workers.broker.delivery import Delivery
from workers.middleware.attempt import Attempt
from workers.middleware.bound import BoundActor
from workers.middleware.outcome import Dead, Snooze

UNKNOWN_ACTOR_PAUSE = Backoff(base_s=2.0, cap_s=60.0)
"""The ceilings of the waits of a job whose actor is not known here: a newer worker may know it."""

Put = Callable[[Attempt], None]


class Settles(Protocol):
    """What the intake needs of the settler."""

    def settle_job(self, delivery: Delivery, job: Job, outcome: Snooze | Dead) -> None:
        """Settle a job that no actor here can run."""

    def settle_raw(self, delivery: Delivery, outcome: Dead) -> None:
        """Settle a delivery that could not be decoded."""


class Intake:
    """Sort deliveries by what may be done with them."""

    def __init__(
        self,
        actors: Mapping[str, BoundActor],
        settler: Settles,
        recall: Put | None,
        start: Put,
        unknown_actor_s: float,
    ) -> None:
        self._actors = actors
        self._settler = settler
        self._recall = recall
        self._start = start
        self._most_snoozes = snoozes_within(unknown_actor_s)

    def deliver(self, deliveries: Sequence[Delivery]) -> None:
        """Take what one read from the broker gave."""
        for delivery in deliveries:
            try:
                job = codec.decode(delivery.body, delivery.properties, delivery.queue)
            except Undecodable as error:
                self._settler.settle_raw(delivery, Dead(error.code, error))
                continue
            self._sort(delivery, job)

    def _sort(self, delivery: Delivery, job: Job) -> None:
        actor = self._actors.get(job.actor)
        if actor is None:
            self._settler.settle_job(delivery, job, self._stranger(job))
            return
        attempt = Attempt(delivery, job, actor)
        if delivery.redelivered:
            events.emit(events.JOB_REDELIVERED, job=job.id, actor=job.actor, attempt=job.attempt)
        if self._recall is not None and _may_be_settled(attempt):
            self._recall(attempt)
        else:
            self._start(attempt)

    def _stranger(self, job: Job) -> Snooze | Dead:
        """Park an unknown actor's job for a bounded time, counted in its own snoozes."""
        if job.snoozes >= self._most_snoozes:
            return Dead(UnknownActor.code, UnknownActor(actor=job.actor))
        return Snooze(UNKNOWN_ACTOR_PAUSE.ceiling_s(job.snoozes + 1), UnknownActor.code)


def snoozes_within(bound_s: float) -> int:
    """Return after how many snoozes an unknown actor's job has waited that long."""
    count, waited_s = 0, 0.0
    while waited_s < bound_s:
        count += 1
        waited_s += UNKNOWN_ACTOR_PAUSE.ceiling_s(count)
    return count


def _may_be_settled(attempt: Attempt) -> bool:
    """Say whether this can be a second copy: only a delivery that went round before can."""
    job = attempt.job
    return attempt.delivery.redelivered or job.attempt > 1 or job.snoozes > 0
