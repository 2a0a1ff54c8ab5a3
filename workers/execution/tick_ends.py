"""Let a schedule know that its tick's job is done, before the job's message is acked.

A schedule that does not overlap waits for that. As any outcome it is made durable first: the row, then the ack. While
the database is away such jobs wait here, unacked, and are tried again; their number is that of the schedules.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

from smena.clock import Deadline
from smena.job import SCHEDULE
from smena.lifecycle import Loop
from smena.records.ticks import Endings
from smena.telemetry import events
from workers.middleware.attempt import Attempt

_BATCH: Final = 200
_IDLE_S: Final = 0.5


class TickEnds(Loop):
    """Settle what is done: at once, or after its tick's row; a service."""

    def __init__(self, endings: Endings) -> None:
        super().__init__("tick-ends", self._round, events.loop_failed)
        self._endings = endings
        self._waiting: deque[Attempt] = deque()
        self._cue = threading.Event()

    def done(self, attempt: Attempt) -> None:
        """Settle an attempt that is done; from any thread, never waits."""
        headers = attempt.job.headers
        if headers and SCHEDULE in headers:
            self._waiting.append(attempt)
            self._cue.set()
        else:
            attempt.delivery.ack()

    def stop(self, deadline: Deadline) -> bool:
        """Write what waits, if that is possible; what is left stays with the broker."""
        self.ask_to_stop()
        self._cue.set()
        return super().stop(deadline) and not self._waiting

    def _round(self, stopping: threading.Event) -> None:
        if not stopping.is_set():
            self._cue.wait(_IDLE_S)
        self._cue.clear()
        while batch := [self._waiting[place] for place in range(min(_BATCH, len(self._waiting)))]:
            self._endings.done([attempt.job.id for attempt in batch])
            for attempt in batch:
                attempt.delivery.ack()
                self._waiting.popleft()
