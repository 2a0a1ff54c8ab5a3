"""Hold one time of leading: its term, until when it may be believed in, and its end."""

from __future__ import annotations

import threading
from collections.abc import Callable

from smena.clock import Clock
from smena.errors import TermLost
from smena.guarantees.election.contract import Reason
from smena.store.terms import Term


class Tenure:
    """One term of this process; made and ended by `Leadership`, read from any thread.

    It is over for a reader at the moment its time has run out by the local clock, whether or not anybody could
    be asked; `lost` is set a moment later, by the leadership's thread.
    """

    def __init__(self, lease_name: str, number: int, until_s: float, clock: Clock) -> None:
        self.lease_name = lease_name
        self.number = number
        self.began_s = clock.monotonic()
        self.renewed_s = self.began_s
        self.reason: Reason | None = None
        self.lost = threading.Event()
        """Set when it is over: wait on it in place of sleeping."""
        self._until_s = until_s
        self._clock = clock
        self._ending = threading.Lock()
        self._at_end: list[Callable[[], None]] = []

    @property
    def term(self) -> Term:
        """The term as the fence wants it: the last statement of every transaction that this leader writes."""
        return Term(self.lease_name, "", self.number)

    def holds(self) -> bool:
        """Say whether this process may still think that it leads."""
        return self.left_s() > 0 and not self.lost.is_set()

    def left_s(self) -> float:
        """Return how long it lasts if nothing renews it."""
        return self._until_s - self._clock.monotonic()

    def check(self) -> None:
        """Raise `TermLost` when it is over; call it between two steps of a long work."""
        if not self.holds():
            raise TermLost(lease=self.lease_name, term=self.number)

    def renew(self, asked_s: float, belief_s: float) -> None:
        """Let it last from the moment at which the store was asked."""
        self.renewed_s, self._until_s = asked_s, asked_s + belief_s

    def end(self, reason: Reason) -> None:
        """End it and tell all who want to know."""
        with self._ending:
            self.reason = self.reason or reason
            self.lost.set()
            told, self._at_end = self._at_end, []
        for tell in told:
            tell()

    def at_end(self, tell: Callable[[], None]) -> None:
        """Call ``tell`` once when it ends, on the thread that ends it; at once if it has."""
        with self._ending:
            if not self.lost.is_set():
                self._at_end.append(tell)
                return
        tell()
