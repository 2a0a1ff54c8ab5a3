"""Decide what becomes of a job of a key that did not take effect: it holds its key up, or dies and lets it go on."""

from __future__ import annotations

from smena.book.partitioning import OnDead
from smena.errors import SmenaError
from smena.job import Job
from smena.records.held_keys import Hold
from smena.telemetry import events
from smena.telemetry.plain_text import error_text
from workers.broker.delivery import Delivery
from workers.execution.nextmessage import NextMessages
from workers.execution.ordered.item import Item, message_of
from workers.execution.pending import Pending
from workers.middleware.outcome import Dead, Retry, Snooze


class Decisions:
    """Turn outcomes into holds and deaths, and tell of them."""

    def __init__(self, messages: NextMessages) -> None:
        self._messages = messages

    def of(self, item: Item, delivery: Delivery, outcome: Retry | Snooze | Dead, on_dead: OnDead) -> Hold | Pending:
        """Return the hold that is to be written, or the dead letter that is to follow its settlement."""
        try:
            return self._of(item, delivery, outcome, on_dead)
        except SmenaError as error:  # it cannot be kept as it is, so nothing can come of it any more
            return self._messages.dead(delivery, item.job, Dead(error.code, error))

    def _of(self, item: Item, delivery: Delivery, outcome: Retry | Snooze | Dead, on_dead: OnDead) -> Hold | Pending:
        row = None if item.parked is None else item.parked.seq
        job = item.job
        match outcome:
            case Retry(delay_s, error):
                events.emit(events.JOB_RETRIED, **job.facts(), delay_s=round(delay_s, 3), error=error_text(error))
                told = error_text(error)
                return _telling(
                    Hold(message_of(job.next_attempt()), "retry", told, delay_s, row, ended=job.attempt), job
                )
            case Snooze(delay_s, why):
                events.emit(events.JOB_SNOOZED, **job.facts(), delay_s=round(delay_s, 3), why=why)
                return _telling(Hold(message_of(job.snoozed()), "snooze", why, delay_s, row), job)
            case Dead(reason, error):
                letter = self._messages.dead(delivery, job, outcome)
                if on_dead == "skip":
                    return letter
                told = reason if error is None else f"{reason}: {error_text(error)}"
                return _telling(Hold(message_of(job), "blocked", told, None, row, letter=letter.stored()), job)


def _telling(hold: Hold, job: Job) -> Hold:
    events.emit(
        events.KEY_BLOCKED if hold.wait_s is None else events.KEY_HELD,
        job=job.id,
        queue=job.queue,
        partition=job.partition,
        key=job.partition_key,
        why=hold.why,
        wait_s=hold.wait_s,
    )
    return hold
