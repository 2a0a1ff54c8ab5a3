"""Make the message that follows an outcome, tell of it, and hand both to the settler.

`Retry` is followed by the next attempt in a delay level, `Snooze` by the same attempt in one, `Dead` by
the dead letter, which carries the bytes as they came. The job's id never changes.

Nothing here may fail a delivery: what cannot be sent again as it is (its queue's name is refused, a value
of it cannot travel) becomes a dead letter, and a dead letter can be made of any bytes.
"""

from __future__ import annotations

from uuid import uuid4

import msgspec

from smena.amqp.deadletter import Death
from smena.amqp.outgoing import Outgoing
from smena.amqp.properties import Properties
from smena.amqp.publisher import Publisher
from smena.clock import Clock
from smena.errors import SmenaError, Undecodable
from smena.job import Job
from smena.records.settlements import Settled, StoredMessage
from smena.telemetry import events
from smena.telemetry.plain_text import error_text
from smena.version import __version__
from workers.broker.delivery import Delivery
from workers.execution.pending import Pending
from workers.execution.settler import Settler
from workers.middleware.attempt import Attempt
from workers.middleware.evidence import of_error
from workers.middleware.outcome import Dead, Retry, Snooze


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
        except SmenaError as refused:
            self._settler.put(self._dead(delivery, job, Dead(refused.code, refused)))

    def settle_raw(self, delivery: Delivery, outcome: Dead) -> None:
        """Settle a delivery that could not be decoded: its bytes become the dead letter."""
        self._settler.put(self._dead(delivery, None, outcome))

    def resume(self, attempt: Attempt, settled: Settled) -> None:
        """Settle a second copy of an attempt with the message that the first one stored."""
        job, kind = attempt.job, settled.message.kind
        outgoing, key = stored_outgoing(settled.message), (job.id, job.attempt)
        self._settler.put(Pending(attempt.delivery, outgoing, kind, job, key, written=True))

    def _after(self, delivery: Delivery, job: Job, outcome: Retry | Snooze | Dead) -> Pending:
        match outcome:
            case Retry(delay_s, error):
                outgoing = self._publisher.outgoing_for(job.next_attempt(), delay_s)
                pending = Pending(delivery, outgoing, "retry", job, key=(job.id, job.attempt))
                events.emit(events.JOB_RETRIED, **pending.facts(), delay_s=round(delay_s, 3), error=error_text(error))
                return pending
            case Snooze(delay_s, why):
                pending = Pending(delivery, self._publisher.outgoing_for(job.snoozed(), delay_s), "snooze", job)
                events.emit(events.JOB_SNOOZED, **pending.facts(), delay_s=round(delay_s, 3), why=why)
                return pending
            case Dead():
                return self._dead(delivery, job, outcome)

    def _dead(self, delivery: Delivery, job: Job | None, outcome: Dead) -> Pending:
        death = self._death(delivery, job, outcome)
        letter = self._publisher.dead_letter(delivery.queue, delivery.body, _readable(delivery), death)
        pending = Pending(delivery, letter, "dead", job, key=None if job is None else (job.id, job.attempt))
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


def _readable(delivery: Delivery) -> Properties:
    """Return the properties of a message, or none where they cannot be read."""
    try:
        return delivery.properties
    except Undecodable:
        return Properties()


def stored_outgoing(message: StoredMessage) -> Outgoing:
    """Return the message that a settlement keeps, as it was to be sent."""
    properties = msgspec.convert(message.properties, Properties)
    return Outgoing(message.exchange, message.routing_key, message.body, properties, message.queue, any_size=True)
