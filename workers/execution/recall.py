"""Look up whether an attempt was settled before, and let it start only if it was not.

A crash between the confirm of a retry and the ack of its message leaves two copies of one attempt.
The settlement row tells them apart: an attempt that has one never runs again. If its next message was
confirmed the copy is acked; if not, the stored message is published once more under its own id. A row of
another job with the same id drops nothing: the job is buried as `id_reused`.

One query answers for all that wait. While PostgreSQL cannot be asked, they wait: not to know is no
reason to run.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from smena.amqp import codec
from smena.clock import Deadline
from smena.errors import IdReused
from smena.lifecycle import Loop
from smena.records.settlements import Settled, Settlements
from smena.telemetry import events
from workers.middleware.attempt import Attempt
from workers.middleware.outcome import Dead

BATCH = 500
IDLE_S = 0.5


class Resumes(Protocol):
    """What the recall needs of the settler."""

    def resume(self, attempt: Attempt, settled: Settled) -> None:
        """Publish the stored next message again, then ack."""

    def settle(self, attempt: Attempt, outcome: Dead) -> None:
        """Bury it."""


class Recall(Loop):
    """The deliveries that may have been settled before."""

    def __init__(
        self,
        settlements: Settlements,
        settler: Resumes,
        start: Callable[[Attempt], None],
    ) -> None:
        super().__init__("recall", self._round, events.loop_failed)
        self._settlements = settlements
        self._settler = settler
        self._start = start
        self._waiting: deque[Attempt] = deque()
        self._cue = threading.Event()

    def put(self, attempt: Attempt) -> None:
        """Queue an attempt for the next look-up; from any thread."""
        self._waiting.append(attempt)
        self._cue.set()

    def waiting(self) -> int:
        """Return how many attempts wait to be looked up."""
        return len(self._waiting)

    def running(self) -> int:
        """Return 0: nothing runs here."""
        return 0

    def hand_back(self) -> int:
        """Give what waits back to the broker; return how many."""
        self.ask_to_stop()
        self._cue.set()
        count = 0
        while self._waiting:
            self._waiting.popleft().delivery.give_back()
            count += 1
        return count

    def finish(self, deadline: Deadline) -> bool:
        """Hand back what waits and join the thread."""
        self.hand_back()
        ended = super().stop(deadline)
        self.hand_back()
        return ended

    def stop(self, deadline: Deadline) -> bool:
        """Finish."""
        return self.finish(deadline)

    def _round(self, stopping: threading.Event) -> None:
        self._cue.wait(IDLE_S)
        self._cue.clear()
        while self._waiting and not stopping.is_set():
            batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
            try:
                self._look_up(batch)
            except Exception:
                self._waiting.extendleft(reversed(batch))
                raise

    def _look_up(self, batch: list[Attempt]) -> None:
        found = self._settlements.find([(attempt.job.id, attempt.job.attempt) for attempt in batch])
        while batch:
            attempt = batch.pop(0)
            settled = found.get((attempt.job.id, attempt.job.attempt))
            if settled is None:
                self._start(attempt)
            elif codec.holds_another_job(settled.message.body, attempt.job):
                self._settler.settle(attempt, Dead(IdReused.code, IdReused(job=attempt.job.id)))
            else:
                self._settled_before(attempt, settled)

    def _settled_before(self, attempt: Attempt, settled: Settled) -> None:
        job = attempt.job
        events.emit(
            events.SETTLE_RESUMED,
            job=job.id,
            actor=job.actor,
            queue=job.queue,
            attempt=job.attempt,
            request_id=job.request_id,
            kind=settled.message.kind,
        )
        if settled.is_over:
            attempt.delivery.ack()
        else:
            self._settler.resume(attempt, settled)
