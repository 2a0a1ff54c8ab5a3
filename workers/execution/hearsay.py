"""Keep strikes in memory where there is no PostgreSQL: what the supervisor of this host has told its workers.

It knows of its own host's deaths only, and forgets with the process; a start leaves nothing. Bounded: the oldest are
forgotten first. For all threads.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from typing import Final

from smena.records.asked import Attempt
from smena.records.strike import Start, Strike
from smena.records.strikes import Found

MOST: Final = 10_000
"""Attempts that strikes are kept for."""


class Hearsay:
    """A register of strikes, for the inquest and the quarantine."""

    def __init__(self) -> None:
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
        with self._lock:
            return Found({key: tuple(self._held[key]) for key in attempts if key in self._held})

    def bury(self, life: str, found: Sequence[Strike]) -> None:  # noqa: ARG002 - each strike names its life
        """Keep the strikes of a cell of this process."""
        self.hear(found)

    def clear(self, attempts: Sequence[Attempt]) -> None:
        """Hold nothing against these attempts any more."""
        with self._lock:
            for key in attempts:
                self._held.pop(key, None)

    def begin(self, begun: Sequence[Start]) -> None:
        """Leave nothing: a host that dies with its supervisor leaves no evidence without PostgreSQL."""

    def end(self, life: str, attempts: Sequence[Attempt]) -> None:
        """Have nothing to forget."""

    def give_up(self, unburied: Collection[str]) -> int:  # noqa: ARG002 - there is none
        """Return 0."""
        return 0
