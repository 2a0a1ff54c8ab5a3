"""Fire the ticks that are due: the loop of the scheduler that leads.

Every decision is one transaction for one schedule, so one that cannot be decided (a zone that is gone, arguments that
no broker takes) is told of, rests for a while and stops nobody else. The database's clock says what is due.
"""

from __future__ import annotations

import threading
from typing import Final, Protocol

from smena.backoff import Backoff, Pause
from smena.book import Registry
from smena.clock import Clock
from smena.errors import DatabaseBusy, DatabaseLost, TermLost
from smena.lifecycle import Loop
from smena.schedules.turns import Turns
from smena.telemetry import events
from smena.telemetry.plain_text import error_text
from workers.roles.stepped import Steps

_LEAST_REST_S: Final = 0.02
_SICK: Final = Backoff(base_s=1.0, cap_s=60.0, floor_s=0.5)
_CLOSE_EVERY_S: Final = 2.0


class Leading(Protocol):
    """Who leads, as this process knows by its own monotonic clock."""

    def term(self) -> int | None:
        """Return the term under which this process leads now; None if it does not."""


class Timekeeper(Loop):
    """The loop that decides; a service. It does nothing while another leads."""

    def __init__(self, turns: Turns, leading: Leading, registry: Registry, clock: Clock, *, poll_s: float) -> None:
        super().__init__("timekeeper", self._round, events.loop_failed)
        self._turns = turns
        self._leading = leading
        self._registry = registry
        self._clock = clock
        self._poll_s = poll_s
        self._declared: int | None = None
        self._closed_s = 0.0
        self._sick: dict[str, tuple[float, Pause]] = {}
        self._steps = Steps(turns.clock, clock)

    def _round(self, stopping: threading.Event) -> None:
        term = self._leading.term()
        rest_s = self._poll_s
        if term is not None:
            try:
                rest_s = self._decide(term, stopping)
            except TermLost:
                events.emit(events.SCHEDULE_TERM_LOST, term=term)
        stopping.wait(rest_s)

    def _decide(self, term: int, stopping: threading.Event) -> float:
        """Decide all that is due; return the seconds to rest."""
        if term != self._declared:
            self._declare(term)
        self._steps.look()
        now_s = self._clock.monotonic()
        if now_s - self._closed_s >= _CLOSE_EVERY_S:
            self._turns.close_dead(term)
            self._closed_s = now_s
        for name in self._turns.due():
            if stopping.is_set() or self._leading.term() != term:
                break
            self._take(name, term)
        until_next_s = self._turns.until_next_s()
        return self._poll_s if until_next_s is None else min(self._poll_s, max(_LEAST_REST_S, until_next_s))

    def _declare(self, term: int) -> None:
        for name in self._turns.declare(self._registry, term):
            events.emit(events.SCHEDULE_RETIRED, schedule=name)
        self._steps.forget()
        self._declared = term

    def _take(self, name: str, term: int) -> None:
        rests_until_s, pause = self._sick.get(name, (0.0, None))
        if self._clock.monotonic() < rests_until_s:
            return
        try:
            self._turns.take(name, term)
        except (TermLost, DatabaseLost, DatabaseBusy):
            raise
        except Exception as error:  # noqa: BLE001 - the seam between schedules: a broken one stops no other
            pause = pause or Pause(_SICK)
            wait_s = pause.next_s()
            self._sick[name] = (self._clock.monotonic() + wait_s, pause)
            events.emit(events.SCHEDULE_FAILED, schedule=name, wait_s=round(wait_s, 3), error=error_text(error))
            return
        self._sick.pop(name, None)
