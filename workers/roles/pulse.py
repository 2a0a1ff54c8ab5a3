"""Know whether PostgreSQL answers, without any loop that works having to wait for the question.

Asked on a thread of its own: a half-open connection keeps a question waiting for seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from smena.backoff import Backoff
from smena.clock import Clock
from smena.lifecycle import Loop
from smena.telemetry import events
from smena.telemetry.plain_text import error_text

STALE_S: Final = 5.0
"""Without an answer for so long the database counts as out of reach."""


class Pulse(Loop):
    """The loop that asks; a service."""

    def __init__(self, ping: Callable[[], None], clock: Clock, *, every_s: float = 1.0) -> None:
        super().__init__("pulse", self._round, self._missed, Backoff(base_s=0.2, cap_s=2.0, floor_s=0.1))
        self._ping = ping
        self._clock = clock
        self._every_s = every_s
        self._answered_s: float | None = None
        self._lost_s: float | None = None

    def beats(self) -> bool:
        """Say whether the last answer is fresh."""
        return self._answered_s is not None and self._clock.monotonic() - self._answered_s < STALE_S

    def _round(self, stopping: threading.Event) -> None:
        self._ping()
        self._answered_s = self._clock.monotonic()
        if self._lost_s is not None:
            events.emit(events.DB_RECOVERED, after_s=round(self._answered_s - self._lost_s, 3))
            self._lost_s = None
        stopping.wait(self._every_s)

    def _missed(self, _loop: str, error: BaseException) -> None:
        if self._lost_s is None:
            self._lost_s = self._clock.monotonic()
            events.emit(events.DB_LOST, error=error_text(error))
