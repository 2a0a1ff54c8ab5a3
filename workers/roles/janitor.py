"""Delete rows whose time is over, in small batches: one process of the fleet at a time does it.

Each duty deletes one batch per call and says how many went. A duty that filled its batch has more to do and
is called again at once, in turn with the others; when all are idle the janitor rests.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from smena.clock import Deadline
from smena.guarantees.solo import Solo
from smena.lifecycle import Loop
from smena.telemetry import events

BATCH: Final = 1000
REST_S: Final = 5.0
"""Pause between two rounds in which nothing is left to do."""

PREFIX: Final = "fleet:"


@dataclass(frozen=True, slots=True)
class Duty:
    """One table to keep small; ``prune(limit)`` deletes up to that many rows and returns how many.

    ``about`` says it to an operator. ``every_s`` is its own period, for what is not done in each round.
    """

    table: str
    prune: Callable[[int], int]
    about: str = ""
    every_s: float | None = None

    @property
    def name(self) -> str:
        """Return what it is called among the schedules; no other schedule has such a name."""
        return f"{PREFIX}{self.table}"


class Janitor(Loop):
    """The loop that prunes; a service."""

    def __init__(self, solo: Solo, duties: Sequence[Duty], *, rest_s: float = REST_S, breath_s: float = 0.05) -> None:
        super().__init__("janitor", self._round, events.loop_failed)
        self._solo = solo
        self._duties = tuple(duties)
        self._rest_s = rest_s
        self._breath_s = breath_s

    def stop(self, deadline: Deadline) -> bool:
        """End after the current batch and let another have the duty."""
        ended = super().stop(deadline)
        if ended:
            self._solo.leave()
        return ended

    def _round(self, stopping: threading.Event) -> None:
        busy = self._solo.held() and self._prune(stopping)
        stopping.wait(self._breath_s if busy else self._rest_s)

    def _prune(self, stopping: threading.Event) -> bool:
        """Do each duty once; say whether one of them has more to do."""
        more = False
        for duty in self._duties:
            if stopping.is_set():
                return False
            deleted = duty.prune(BATCH)
            more = more or deleted >= BATCH
            if deleted:
                events.emit(events.RELAY_PRUNED, table=duty.table, rows=deleted)
        return more
