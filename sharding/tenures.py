"""Keep what this process holds of a group: each partition's tenure, from its claim until it is let go or lost.

A tenure is judged by the local monotonic clock alone: it lasts as long as the lease, counted from *before* the
question that got or renewed it was asked. The database grants from a moment after that, so a tenure ends no later
than its lease, and a slow answer never lengthens it. Safe from all threads; asks nobody, calls nobody.

The names of the steps are those of the protocol's model (tests/property/partition_model.py).
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from sharding.leases import partition_in
from smena.clock import Clock
from smena.store.terms import Term

_OVER: Final = float("-inf")


@dataclass(frozen=True, slots=True)
class Tenure:
    """One partition, ours under ``term`` until ``until_s`` on the monotonic clock, if it is not renewed."""

    partition: int
    term: Term
    until_s: float
    asked: bool = False
    """Somebody else should have it: it is handed over once the key in hand is finished."""

    @property
    def is_over(self) -> bool:
        """Say whether it has ended for good, before its time or because nobody renewed it."""
        return self.until_s == _OVER


class Tenures:
    """All tenures of one group in one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: dict[int, Tenure] = {}
        self._unreleased: list[Term] = []
        self._closed = False
        self._changing = threading.Lock()

    def term_of(self, partition: int) -> Term | None:
        """Return the term under which the partition is ours at this moment, None if it is not."""
        tenure = self._held.get(partition)
        if tenure is None or tenure.until_s <= self._clock.monotonic():
            return None
        return tenure.term

    def held(self) -> list[Tenure]:
        """Return what is held, also what has run out and is not lost yet."""
        with self._changing:
            return list(self._held.values())

    def claim(self, term: Term, until_s: float) -> Tenure | None:
        """Begin a tenure; None if we have closed meanwhile, and then its lease is `unreleased`."""
        tenure = Tenure(partition_in(term.lease), term, until_s)
        with self._changing:
            if self._closed:
                self._unreleased.append(term)
                return None
            self._held[tenure.partition] = tenure
            return tenure

    def renewable(self) -> list[Term]:
        """Return the terms that a renewal would be of use for."""
        now_s = self._clock.monotonic()
        return [tenure.term for tenure in self.held() if tenure.until_s > now_s]

    def hear(self, asked: Collection[Term], renewed: Collection[Term], until_s: float) -> None:
        """Take in an answer: what was renewed lasts until ``until_s``, the rest is another's and over."""
        with self._changing:
            for term in asked:
                tenure = self._held.get(partition_in(term.lease))
                if tenure is not None and tenure.term == term and not tenure.is_over:
                    until = max(until_s, tenure.until_s) if term in renewed else _OVER
                    self._held[tenure.partition] = replace(tenure, until_s=until)

    def ask(self, partition: int) -> Tenure | None:
        """Mark a tenure as to be handed over; None if there is none or it was asked for already."""
        with self._changing:
            tenure = self._held.get(partition)
            if tenure is None or tenure.asked:
                return None
            asked = self._held[partition] = replace(tenure, asked=True)
            return asked

    def let_go(self, tenure: Tenure) -> bool:
        """End a tenure that nobody works any more; False if it had ended before. Its lease is then `unreleased`."""
        with self._changing:
            held = self._held.get(tenure.partition)
            if held is None or held.term != tenure.term:
                return False
            del self._held[tenure.partition]
            self._unreleased.append(tenure.term)
            return True

    def lapse(self, *, close: bool = False) -> list[Tenure]:
        """End the tenures whose time is over, for good, and return them; each is then to be `let_go`.

        ``close`` ends them all, and no other begins.
        """
        now_s = self._clock.monotonic()
        with self._changing:
            self._closed = self._closed or close
            over = [tenure for tenure in self._held.values() if self._closed or tenure.until_s <= now_s]
            for tenure in over:
                self._held[tenure.partition] = replace(tenure, until_s=_OVER)
            return over

    def next_lapse_s(self) -> float | None:
        """Return when, on the monotonic clock, the next tenure runs out; None if nothing is held."""
        with self._changing:
            return min((tenure.until_s for tenure in self._held.values()), default=None)

    def unreleased(self) -> list[Term]:
        """Return the leases that were let go and are still in our name."""
        with self._changing:
            return list(self._unreleased)

    def release(self, terms: Collection[Term]) -> None:
        """Forget leases that are in our name no more."""
        with self._changing:
            self._unreleased = [term for term in self._unreleased if term not in terms]
