"""Hold one time of leading: its term, until when it may be believed in, and its end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from smena.clock import Clock
from smena.errors import TermLost
from smena.guarantees.election.contract import Reason
from smena.store.terms import Term

_LOOK_S: Final = 0.01
"""A look at the time comes no sooner than that after another."""


class Tenure:
    """One term of this process; made and ended by `Leadership`, read from any thread.

    It is over for a reader at the moment its time has run out by the local clock, whether or not anybody could
    be asked; `lost` is set by the leadership's thread, as soon as what it asks the store has come to an end.
    """

    def __init__(self, lease_name: str, number: int, until_s: float, clock: Clock) -> None:
        self.lease_name = lease_name
        self.number = number
        self.began_s = clock.monotonic()
        self.renewed_s = self.began_s
        self.reason: Reason | None = None
        self.lost = threading.Event()
        """Set when the leadership's thread has found that it is over."""
        self._until_s = until_s
        self._clock = clock
        self._ending = threading.RLock()  # who is told may ask again
        self._at_end: list[Callable[[], object]] = []

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

    def wait(self, seconds: float) -> bool:
        """Wait that long, or until it is over; say whether it still holds. Use it in place of sleeping."""
        self.lost.wait(max(0.0, min(seconds, self.left_s())))
        return self.holds()

    def renew(self, asked_s: float, belief_s: float) -> None:
        """Let it last from the moment at which the store was asked."""
        self.renewed_s, self._until_s = asked_s, asked_s + belief_s

    def end(self, reason: Reason) -> None:
        """End it and tell all who want to know."""
        with self._ending:
            self.reason = self.reason or reason
            self.lost.set()
            while self._at_end:
                self._at_end.pop()()

    def at_end(self, tell: Callable[[], object]) -> Callable[[], None]:
        """Call ``tell`` once when it ends, on the thread that ends it, at once if it has; return the way out.

        After the way out was taken it is not called, nor in the middle of being called.
        """
        with self._ending:
            if self.lost.is_set():
                tell()
            else:
                self._at_end.append(tell)

        def leave() -> None:
            with self._ending:
                if tell in self._at_end:
                    self._at_end.remove(tell)

        return leave


@asynccontextmanager
async def cancelled_at_end(tenure: Tenure) -> AsyncIterator[None]:
    """Cancel the block when the tenure ends, and let it end with `TermLost`; a cancellation by others passes.

    The loop looks at the time itself: the leadership's thread may wait for a store that says nothing.
    """
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    before = 0 if task is None else task.cancelling()
    struck, is_inside = False, True
    alarm: asyncio.Handle

    def strike() -> None:
        nonlocal struck
        if is_inside and not struck and task is not None:  # it may have left while this waited for its turn
            struck = True
            task.cancel()

    def look() -> None:
        nonlocal alarm
        if tenure.holds():
            alarm = loop.call_later(max(_LOOK_S, tenure.left_s()), look)
        else:
            strike()

    alarm = loop.call_soon(look)
    leave = tenure.at_end(lambda: loop.call_soon_threadsafe(strike))
    try:
        yield
    except asyncio.CancelledError as cancelled:
        if struck and task is not None and task.cancelling() == before + 1:  # nobody else wants it to end
            raise TermLost(lease=tenure.lease_name, term=tenure.number) from cancelled
        raise
    finally:
        is_inside = False
        alarm.cancel()
        leave()
        if struck and task is not None:
            task.uncancel()  # it was meant for the block, whatever that has made of it
