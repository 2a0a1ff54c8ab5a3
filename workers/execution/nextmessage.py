"""Make the message that follows an outcome, tell of it, and hand both to the settler.

`Retry` is followed by the next attempt in a delay level, `Snooze` by the same attempt in one, `Dead` by
the dead letter, which carries the bytes as they came. The job's id never changes.

Nothing here may fail a delivery: what cannot be sent again as it is (its queue's name is refused, a value
of it cannot travel) becomes a dead letter, and a dead letter can be made of any bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

from smena.amqp.deadletter import Death
from smena.amqp.outgoing import Outgoing
from smena.amqp.properties import Properties, encode_properties
from smena.amqp.publisher import Publisher
from smena.clock import Clock
from smena.errors import SmenaError, Undecodable
from smena.job import Job
from smena.records.settlements import Settled
from smena.telemetry import events
from smena.telemetry.plain_text import error_text
from smena.version import __version__
from workers.broker.delivery import Delivery
from workers.execution.pending import Pending, stored_outgoing
from workers.execution.settler import Settler
from workers.middleware.attempt import Attempt
from workers.middleware.evidence import of_error
from workers.middleware.outcome import YIELDED, Dead, Retry, Snooze


class NextMessages:
    """What the rings and the intake hand their outcomes to."""

    def __init__(self, publisher: Publisher, settler: Settler, worker: str, clock: Clock) -> None:
        self._publisher = publisher
        self._settler = settler
        self._worker = worker
        self._clock = clock

    def settle(self, attempt: Attempt, outcome: Retry | Snooze | Dead) -> None:
        """Settle a delivery whose attempt came to this outcome; never waits, never raises."""
        self.settle_job(attempt.delivery, attempt.job, outcome)

    def settle_job(self, delivery: Delivery, job: Job, outcome: Retry | Snooze | Dead) -> None:
        """Settle a delivery of a job that could be decoded."""
        try:
            self._settler.put(self._after(delivery, job, outcome))
        except Exception as refused:  # noqa: BLE001 - whatever it is, this message cannot be made
            self._settler.put(self.dead(delivery, job, _cannot_go_on(refused)))

    def settle_raw(self, delivery: Delivery, outcome: Dead) -> None:
        """Settle a delivery that could not be decoded: its bytes become the dead letter."""
        self._settler.put(self.dead(delivery, None, outcome))

    def resume(self, attempt: Attempt, settled: Settled) -> None:
        """Settle a second copy of an attempt with the message that the first one stored."""
        job = attempt.job
        try:
            pending = Pending(attempt.delivery, stored_outgoing(settled.message), settled.message.kind, job)
        except Exception as refused:  # noqa: BLE001 - a row that nobody here wrote: the job must not wait for ever
            pending = self.dead(attempt.delivery, job, _cannot_go_on(refused))
        pending.key, pending.written = (job.id, job.attempt), True
        pending.instead = self._letter_for(attempt.delivery, job)
        self._settler.put(pending)

    def _after(self, delivery: Delivery, job: Job, outcome: Retry | Snooze | Dead) -> Pending:
        match outcome:
            case Retry(delay_s, error):
                pending = Pending(delivery, self._sendable(job.next_attempt(), delay_s), "retry", job)
                pending.key = (job.id, job.attempt)
                events.emit(events.JOB_RETRIED, **pending.facts(), delay_s=round(delay_s, 3), error=error_text(error))
                pending.instead = self._letter_for(delivery, job)
                return pending
            case Snooze(delay_s, why):
                pending = Pending(delivery, self._sendable(job.snoozed(), delay_s), "snooze", job)
                event = events.JOB_YIELDED if why == YIELDED else events.JOB_SNOOZED
                events.emit(event, **pending.facts(), delay_s=round(delay_s, 3), why=why)
                return pending
            case Dead():
                return self.dead(delivery, job, outcome)

    def _sendable(self, job: Job, delay_s: float) -> Outgoing:
        """Return the job's message; raise `Unsendable` now for what the publisher would find out later."""
        outgoing = self._publisher.outgoing_for(job, delay_s)
        encode_properties(outgoing.properties)
        return outgoing

    def _letter_for(self, delivery: Delivery, job: Job) -> Callable[[SmenaError], Outgoing]:
        return lambda error: self.dead(delivery, job, _cannot_go_on(error)).outgoing

    def dead(self, delivery: Delivery, job: Job | None, outcome: Dead) -> Pending:
        """Return the dead letter of a delivery, and tell of the death."""
        death = self._death(delivery, job, outcome)
        letter = self._publisher.dead_letter(delivery.queue, delivery.body, _readable(delivery), death)
        pending = Pending(delivery, letter, "dead", job)
        if job is not None:
            pending.key, pending.instead = (job.id, job.attempt), self._letter_for(delivery, job)
        error = {} if outcome.error is None else {"error": error_text(outcome.error)}
        events.emit(events.JOB_DEAD, **pending.facts(), reason=outcome.reason, **error)
        return pending

    def _death(self, delivery: Delivery, job: Job | None, outcome: Dead) -> Death:
        evidence = of_error(outcome.error, outcome.reason)
        return Death(
            reason=outcome.reason,
            died_at_ms=self._clock.now_ms(),
            error_class=evidence.error_class,
            error_text=evidence.error_text,
            traceback=evidence.traceback,
            fingerprint=evidence.fingerprint,
            worker=self._worker,
            build=__version__,
            job_id=(_readable(delivery).message_id or str(uuid4())) if job is None else job.id,
            actor=None if job is None else job.actor,
            attempt=None if job is None else job.attempt,
        )


def _cannot_go_on(error: Exception) -> Dead:
    return Dead(error.code if isinstance(error, SmenaError) else "unexpected", error)


def _readable(delivery: Delivery) -> Properties:
    """Return the properties of a message, or none where they cannot be read."""
    try:
        return delivery.properties
    except Undecodable:
        return Properties()
