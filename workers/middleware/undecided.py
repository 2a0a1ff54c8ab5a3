"""Tell that jobs wait for their transaction, so that no slot stands still in silence."""

from __future__ import annotations

import threading
from typing import Final

from smena.clock import SYSTEM, Clock
from smena.telemetry import events
from smena.telemetry.plain_text import error_text
from workers.middleware.attempt import Attempt

TELL_EVERY_S: Final = 60.0
"""One line speaks for all that wait meanwhile: an outage stops every slot, and each tries again and again."""


class Undecided:
    """What is told of jobs that could not be begun; for all threads."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._telling = threading.Lock()
        self._told_s: float | None = None

    def tell(self, attempt: Attempt, why: str, error: BaseException) -> None:
        """Tell of one, unless another was told of within the last minute."""
        with self._telling:
            now = self._clock.monotonic()
            if self._told_s is not None and now - self._told_s < TELL_EVERY_S:
                return
            self._told_s = now
        facts = attempt.job.facts(attempt.actor.name)
        events.emit(events.JOB_UNDECIDED, **facts, why=why, error=error_text(error))
