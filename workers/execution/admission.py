"""Let an attempt start, by way of the `Recall` if it may have been settled before."""

from __future__ import annotations

from collections.abc import Callable

from smena.telemetry import events
from workers.middleware.attempt import Attempt

Put = Callable[[Attempt], None]


class Admission:
    """The door to the threads and the event loop; for any thread, never waits."""

    def __init__(self, recall: Put | None, start: Put) -> None:
        self._recall = recall
        self._start = start

    def admit(self, attempt: Attempt) -> None:
        """Send an attempt on its way."""
        if attempt.delivery.redelivered:
            job = attempt.job
            events.emit(events.JOB_REDELIVERED, job=job.id, actor=job.actor, attempt=job.attempt)
        if self._recall is not None and _may_be_settled(attempt):
            self._recall(attempt)
        else:
            self._start(attempt)


def _may_be_settled(attempt: Attempt) -> bool:
    """Say whether this can be a second copy: only a delivery that went round before can."""
    job = attempt.job
    return attempt.delivery.redelivered or job.attempt > 1 or job.snoozes > 0
