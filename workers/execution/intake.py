"""Take deliveries from the consumer and send each where it belongs.

Runs on the link thread, so it only decodes and sorts: what can become an attempt is admitted (`admission.py`).
What cannot (bad bytes, an actor nobody here knows, a job of an ordered actor outside its partition) goes straight to
the settler. Whatever happens to one delivery, the next ones are served.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from smena.amqp import codec
from smena.backoff import Backoff
from smena.errors import Misplaced, Undecodable, UnknownActor
from smena.job import Job
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
        admit: Put,
        unknown_actor_s: float,
    ) -> None:
        self._actors = actors
        self._settler = settler
        self._admit = admit
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
            self._settler.settle_job(delivery, job, stranger(job, self._most_snoozes))
            return
        if actor.partitions is not None:
            self._settler.settle_job(delivery, job, Dead(Misplaced.code, Misplaced(actor=job.actor)))
            return
        self._admit(Attempt(delivery, job, actor))


def stranger(job: Job, most_snoozes: int) -> Snooze | Dead:
    """Park an unknown actor's job for a bounded time, counted in its own snoozes."""
    if job.snoozes >= most_snoozes:
        return Dead(UnknownActor.code, UnknownActor(actor=job.actor))
    return Snooze(UNKNOWN_ACTOR_PAUSE.ceiling_s(job.snoozes + 1), UnknownActor.code)


def snoozes_within(bound_s: float) -> int:
    """Return after how many snoozes an unknown actor's job has waited that long."""
    count, waited_s = 0, 0.0
    while waited_s < bound_s:
        count += 1
        waited_s += UNKNOWN_ACTOR_PAUSE.ceiling_s(count)
    return count
