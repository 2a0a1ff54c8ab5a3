"""Move dead letters from the broker into rows: insert, commit, ack.

A letter is acked only after its row is committed; one that comes twice is one row. A row that PostgreSQL
refuses in every form stays in its queue, held by this process, and is told of; it stops nobody else.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from smena.clock import Clock, Deadline
from smena.lifecycle import Loop
from smena.records.dead_letters import DeadLetter
from smena.telemetry import events
from workers.broker.delivery import Delivery
from workers.roles.inbox import Inbox
from workers.roles.letters import letter_of

BATCH: Final = 200
"""Also the consumer's prefetch: what is held in memory."""

BATCH_BYTES: Final = 16 * 1024 * 1024
_WAIT_S: Final = 0.5


class Shelf(Protocol):
    """Where letters are kept."""

    def insert_many(self, letters: Sequence[DeadLetter]) -> list[Exception | None]:
        """Write letters and commit; return for each None, or why it cannot be kept at all."""


class Archivist(Loop):
    """The loop from dead queues to rows; a service. ``deliver`` is for the consumer."""

    def __init__(self, shelf: Shelf, source_of: Callable[[str], str], clock: Clock) -> None:
        super().__init__("archivist", self._round, events.loop_failed)
        self._shelf = shelf
        self._source_of = source_of
        self._clock = clock
        self._inbox = Inbox()
        self.deliver = self._inbox.put

    def stop(self, deadline: Deadline) -> bool:
        """End after the current batch; what is not moved stays with the broker."""
        self.ask_to_stop()
        self._inbox.knock()
        return super().stop(deadline)

    def _round(self, _stopping: threading.Event) -> None:
        deliveries = self._inbox.head(BATCH, BATCH_BYTES, _WAIT_S)
        if not deliveries:
            return
        refusals = self._shelf.insert_many([self._letter(delivery) for delivery in deliveries])
        for delivery, refusal in zip(deliveries, refusals, strict=True):
            if refusal is None:
                delivery.ack()
            else:
                events.loop_failed(self.name, refusal)
        self._inbox.done(deliveries)
        self._tell(deliveries, refusals)

    def _letter(self, delivery: Delivery) -> DeadLetter:
        return letter_of(delivery, source=self._source_of(delivery.queue), clock=self._clock)

    def _tell(self, deliveries: Sequence[Delivery], refusals: Sequence[Exception | None]) -> None:
        moved = Counter(one.queue for one, why in zip(deliveries, refusals, strict=True) if why is None)
        for queue, count in moved.items():
            events.emit(events.ARCHIVIST_MOVED, moved=count, queue=queue)
