"""Look up whether an attempt was settled before, and let it start only if it was not.

A crash between the confirm of a retry and the ack of its message leaves two copies of one attempt.
The settlement row tells them apart: an attempt that has one never runs again. If its next message was
confirmed the copy is acked; if not, the stored message is published once more under its own id. A row of
another job with the same id drops nothing: the job is buried as `id_reused`.

One query answers for all that wait. While PostgreSQL cannot be asked, they wait: not to know is no
reason to run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from smena.amqp import codec
from smena.errors import IdReused
from smena.records.settlements import Settled, Settlements
from smena.telemetry import events
from workers.execution.waiting_room import WaitingRoom
from workers.middleware.attempt import Attempt
from workers.middleware.outcome import Dead


class Resumes(Protocol):
    """What the recall needs of the settler."""

    def resume(self, attempt: Attempt, settled: Settled) -> None:
        """Publish the stored next message again, then ack."""

    def settle(self, attempt: Attempt, outcome: Dead) -> None:
        """Bury it."""


class Recall(WaitingRoom):
    """The deliveries that may have been settled before."""

    def __init__(
        self,
        settlements: Settlements,
        settler: Resumes,
        start: Callable[[Attempt], None],
    ) -> None:
        super().__init__("recall", self._look_up)
        self._settlements = settlements
        self._settler = settler
        self._start_job = start

    def _look_up(self, batch: list[Attempt]) -> None:
        found = self._settlements.find([(attempt.job.id, attempt.job.attempt) for attempt in batch])
        while batch:
            attempt = batch.pop(0)
            settled = found.get((attempt.job.id, attempt.job.attempt))
            if settled is None:
                self._start_job(attempt)
            elif codec.holds_another_job(settled.message.body, attempt.job):
                self._settler.settle(attempt, Dead(IdReused.code, IdReused(job=attempt.job.id)))
            else:
                self._settled_before(attempt, settled)

    def _settled_before(self, attempt: Attempt, settled: Settled) -> None:
        events.emit(events.SETTLE_RESUMED, **attempt.job.facts(), kind=settled.message.kind)
        if settled.is_over:
            attempt.delivery.ack()
        else:
            self._settler.resume(attempt, settled)
