"""Make outcomes durable that need a message published, then ack: the only way a failed attempt leaves.

The order for `Retry` and `Dead` is: the settlement row (where there is PostgreSQL), the confirmed
publish of the next message, the ack. Any step may fail, and the process may die between two of them;
the message is then still with the broker, and the row tells the next copy what was decided. A conflict
on the row means that another copy of this attempt was settled first: this one is dropped. If the row is of
another job with the same id, this one becomes a dead letter `id_reused`.

All this happens off the threads that run jobs, in batches: one statement and one flight of confirms for
all that wait. What cannot be made durable now waits here, unacked, and is tried again after a pause; when
more than ``limit`` wait, consuming stops until half of them are gone.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from smena.amqp.publisher import Publisher
from smena.backoff import Backoff, Pause
from smena.clock import SYSTEM, Clock, Deadline
from smena.errors import IdReused, SecondCopy, SmenaError, Unroutable, Unsendable
from smena.lifecycle import Loop
from smena.records.asked import Attempt as AttemptKey
from smena.records.settlements import Settlements
from smena.telemetry import events
from smena.telemetry.plain_text import error_text
from workers.execution.pending import Pending

BATCH = 500
IDLE_S = 0.5
AGAIN = Backoff(base_s=0.2, cap_s=3.0, floor_s=0.1)


class Settler(Loop):
    """Settle in batches, on a thread of its own."""

    def __init__(
        self,
        publisher: Publisher,
        settlements: Settlements | None,
        limit: int,
        hold_consuming: Callable[[bool], None],
        clock: Clock = SYSTEM,
    ) -> None:
        super().__init__("settler", self._round, events.loop_failed)
        self._publisher = publisher
        self._settlements = settlements
        self._limit = limit
        self._hold_consuming = hold_consuming
        self._holding = False
        self._clock = clock
        self._inbox: deque[Pending] = deque()
        self._again: deque[Pending] = deque()
        self._again_at_s = 0.0
        self._again_pause = Pause(AGAIN)
        self._confirmed: deque[AttemptKey] = deque()
        self._in_hand = 0
        self._sent = 0  # written by the settler's thread only
        self._answered = 0  # written by the link thread only
        self._cue = threading.Event()
        self._settled = threading.Event()

    def put(self, pending: Pending) -> None:
        """Take over a delivery; from any thread, never waits."""
        self._inbox.append(pending)
        self._cue.set()

    def waiting(self) -> int:
        """Return how many outcomes are not durable yet."""
        return len(self._inbox) + len(self._again) + self._in_hand + self._sent - self._answered

    def stop(self, deadline: Deadline) -> bool:
        """Settle what waits until the deadline; what is left stays with the broker."""
        while self.waiting() and not deadline.passed():
            self._settled.wait(min(IDLE_S, deadline.left_s()))
            self._settled.clear()
            self._cue.set()
        self.ask_to_stop()
        self._cue.set()
        return super().stop(deadline) and not self.waiting()

    def _round(self, stopping: threading.Event) -> None:
        self._cue.wait(IDLE_S)
        self._cue.clear()
        self._take_again()
        while self._inbox and not stopping.is_set():
            batch = [self._inbox.popleft() for _ in range(min(BATCH, len(self._inbox)))]
            self._in_hand = len(batch)
            try:
                self._hold_when_full()
                self._publish(self._write(batch))
            except Exception:
                self._inbox.extendleft(reversed(batch))
                raise
            finally:
                self._in_hand = 0
        self._hold_when_full()
        self._mark_confirmed()

    def _write(self, batch: list[Pending]) -> list[Pending]:
        """Write the rows of ended attempts; return what is to be published."""
        batch = [pending for pending in batch if pending.delivery.alive()]
        if self._settlements is None:
            return batch
        fresh = [pending for pending in batch if pending.key is not None and not pending.written]
        ours = self._write_rows(self._settlements, fresh)
        for pending in fresh:
            pending.written = pending.key in ours
            ours.discard(pending.attempt())  # of two copies in one batch, the first is settled
        self._drop_copies(self._settlements, [pending for pending in fresh if not pending.written])
        return [pending for pending in batch if pending.key is None or pending.written]

    def _write_rows(self, settlements: Settlements, fresh: Sequence[Pending]) -> set[AttemptKey]:
        try:
            return settlements.write_many([(pending.attempt(), pending.stored()) for pending in fresh])
        except Exception:
            for pending in fresh:  # the server may have committed, and only its answer was lost
                pending.doubtful = True
            raise

    def _drop_copies(self, settlements: Settlements, second: Sequence[Pending]) -> None:
        """Drop the second copies; what is none, but another job with the same id, is to become a dead letter.

        A row that may be this message's own, of a write that was not answered or of a delivery before this one, is
        none of another copy: as long as its message is not confirmed, nobody but us may be about to publish it.
        """
        first = settlements.find([pending.attempt() for pending in second])
        for pending in second:
            settled = first.get(pending.attempt())
            if settled is not None and pending.is_another_job(settled.message.body):
                pending.bury(IdReused(job=pending.attempt()[0]))
                pending.key = None  # the row is the other's
            elif settled is not None and pending.may_be_settled() and not settled.is_over:
                pending.resume(settled.message)
                del first[pending.attempt()]  # of two copies in one batch, the first goes on
            else:
                self._drop(pending)

    def _publish(self, batch: list[Pending]) -> None:
        if batch:
            self._sent += len(batch)
            outgoings = [pending.outgoing for pending in batch]
            self._publisher.publish(outgoings, lambda outcomes: self._on_outcomes(batch, outcomes))

    def _on_outcomes(self, batch: Sequence[Pending], outcomes: Sequence[SmenaError | None]) -> None:
        """Ack what was confirmed and keep the rest; on the link thread."""
        failed = [pending for pending, error in zip(batch, outcomes, strict=True) if not self._acked(pending, error)]
        if failed:
            self._again.extend(failed)
            self._again_at_s = self._clock.monotonic() + self._again_pause.next_s()
        else:
            self._again_pause.reset()
        self._answered += len(batch)
        self._settled.set()
        self._cue.set()

    def _acked(self, pending: Pending, error: SmenaError | None) -> bool:
        if error is not None:
            events.emit(events.PUBLISH_FAILED, **pending.facts(), error=error_text(error))
            if isinstance(error, Unsendable) and not isinstance(error, Unroutable):
                pending.bury(error)
            return False
        pending.delivery.ack()
        if pending.key is not None:
            self._confirmed.append(pending.key)
        return True

    def _take_again(self) -> None:
        if self._again and self._clock.monotonic() >= self._again_at_s:
            while self._again:
                self._inbox.append(self._again.popleft())

    def _mark_confirmed(self) -> None:
        """Note which messages the broker has; a mark that is lost costs one more copy, so it may be late."""
        while self._confirmed and self._settlements is not None:
            keys = [self._confirmed.popleft() for _ in range(min(BATCH, len(self._confirmed)))]
            self._settlements.confirmed(keys)

    def _drop(self, pending: Pending) -> None:
        events.emit(events.JOB_LOST, **pending.facts(), why=SecondCopy.code)
        pending.delivery.ack()

    def _hold_when_full(self) -> None:
        waiting = self.waiting()
        if not self._holding and waiting > self._limit:
            self._holding = True
            self._hold_consuming(self._holding)
        elif self._holding and waiting <= self._limit // 2:
            self._holding = False
            self._hold_consuming(self._holding)
