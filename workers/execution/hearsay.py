"""Know of strikes where there is no PostgreSQL.

The supervisor of this host tells its workers; with Redis those of other hosts have written there. Strikes are forgotten
with the process; a start leaves nothing. Bounded: the oldest are forgotten first. While Redis is away each host goes by
its own deaths, as it does without. For all threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from smena.clock import SYSTEM, Clock, Deadline
from smena.errors import CacheLost
from smena.records.asked import Attempt
from smena.records.strike import Start, Strike
from smena.records.strikes import Found
from smena.telemetry import events

T = TypeVar("T")

MOST: Final = 10_000
"""Attempts that strikes are kept for."""

AWAY_S: Final = 5.0
"""How long others are not asked after they did not answer."""


class Others(Protocol):
    """Where the strikes of other hosts are; each raises `CacheLost`."""

    def find(self, attempts: Sequence[Attempt]) -> Mapping[Attempt, Sequence[Strike]]:
        """Return the strikes held against these attempts."""

    def bury(self, life: str, found: Sequence[Strike]) -> None:
        """Write strikes down."""

    def clear(self, attempts: Sequence[Attempt]) -> None:
        """Hold nothing against these attempts any more."""


class Hearsay:
    """A register of strikes, for the inquest and the quarantine."""

    def __init__(self, others: Others | None = None, clock: Clock = SYSTEM) -> None:
        self._others = others
        self._clock = clock
        self._away = Deadline.within(0, clock)
        self._held: dict[Attempt, list[Strike]] = {}
        self._lock = threading.Lock()

    def hear(self, strikes: Sequence[Strike]) -> None:
        """Take what the supervisor tells; twice is once."""
        with self._lock:
            for strike in strikes:
                held = self._held.setdefault((strike.job_id, strike.attempt), [])
                if all(one.life != strike.life for one in held):
                    held.append(strike)
            while len(self._held) > MOST:
                del self._held[next(iter(self._held))]

    def find(self, attempts: Sequence[Attempt]) -> Found:
        """Return the strikes held against these attempts; nobody is known to be unburied."""
        held: dict[Attempt, dict[str, Strike]] = {}
        for key, strikes in self._of_others(attempts).items():
            held[key] = {strike.life: strike for strike in strikes}
        with self._lock:
            for key in self._held.keys() & set(attempts):
                held.setdefault(key, {}).update({strike.life: strike for strike in self._held[key]})
        return Found({key: tuple(strikes.values()) for key, strikes in held.items()})

    def bury(self, life: str, found: Sequence[Strike]) -> None:
        """Keep the strikes of a cell of this process."""
        self.hear(found)
        self._ask(lambda others: others.bury(life, found))

    def clear(self, attempts: Sequence[Attempt]) -> None:
        """Hold nothing against these attempts any more."""
        with self._lock:
            for key in attempts:
                self._held.pop(key, None)
        self._ask(lambda others: others.clear(attempts))

    def begin(self, begun: Sequence[Start]) -> None:
        """Leave nothing: a host that dies with its supervisor leaves no evidence without PostgreSQL."""

    def end(self, life: str, attempts: Sequence[Attempt]) -> None:
        """Have nothing to forget."""

    def give_up(self, unburied: Collection[str]) -> int:  # noqa: ARG002 - there is none
        """Return 0."""
        return 0

    def _of_others(self, attempts: Sequence[Attempt]) -> Mapping[Attempt, Sequence[Strike]]:
        return self._ask(lambda others: others.find(attempts)) or {}

    def _ask(self, question: Callable[[Others], T]) -> T | None:
        if self._others is None or not self._away.passed():
            return None
        try:
            return question(self._others)
        except CacheLost as error:
            self._away = Deadline.within(AWAY_S, self._clock)
            events.loop_failed("shared-strikes", error)
            return None
