"""Campaign, renew and lead, on one thread: the service that a process asks whether it leads now.

`term` is judged by the local monotonic clock, counted from before the store was asked: a leader that was frozen, or
that reaches its store no more, stops believing within its lease by itself. One that believes for a moment too long is
held off by the fence: see the package's docstring.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from smena.clock import Clock, Deadline
from smena.errors import Transient
from smena.guarantees.election.contract import PREFIX, Election, Reason, Unseated
from smena.guarantees.election.tenure import Tenure, cancelled_at_end
from smena.guarantees.election.timing import Timing
from smena.lifecycle import Loop
from smena.telemetry import events
from smena.telemetry.plain_text import error_text


class NotLeading(Transient):
    """Another process leads."""

    code = "not_leading"


class Leadership(Loop):
    """Stand for one seat and keep it while it can; a service."""

    def __init__(self, election: Election, timing: Timing, clock: Clock) -> None:
        self.lease_name = election.lease_name
        self.duty = election.lease_name.removeprefix(PREFIX)
        super().__init__(f"leader-{self.duty}", self._round, events.loop_failed)
        self._election = election
        self._timing = timing
        self._clock = clock
        self._tenure: Tenure | None = None
        self._asked_to_resign = False
        self._is_ending = False
        self._stays_out_until_s = clock.monotonic()
        self._turned = threading.Condition()

    def check(self) -> None:
        """Raise `Misconfigured` where no election can be held; only before the start."""
        self._election.check()

    def term(self) -> int | None:
        """Return the term under which this process leads now, or None."""
        tenure = self._tenure
        return tenure.number if tenure is not None and tenure.holds() else None

    @property
    def tenure(self) -> Tenure | None:
        """The present time of leading, or None."""
        tenure = self._tenure
        return tenure if tenure is not None and tenure.holds() else None

    def held_s(self) -> float | None:
        """Return how long this process has led, or None."""
        tenure = self.tenure
        return None if tenure is None else self._clock.monotonic() - tenure.began_s

    def renewed_ago_s(self) -> float | None:
        """Return how long ago the last renewal was asked for that was granted, or None."""
        tenure = self.tenure
        return None if tenure is None else self._clock.monotonic() - tenure.renewed_s

    @contextmanager
    def lead(self, wait_s: float | None = None) -> Iterator[Tenure]:
        """Do the block as the leader, after waiting for that; raise `NotLeading` if it is not so within ``wait_s``.

        A block cannot be struck from outside: it asks `Tenure.check`, or waits by `Tenure.wait`. One that comes to
        its end when its time is over ends with `TermLost`. Leaving the block does not give up the seat.
        """
        tenure = self._led(wait_s)
        yield tenure
        tenure.check()

    @asynccontextmanager
    async def alead(self, wait_s: float | None = None) -> AsyncIterator[Tenure]:
        """Do the same on the event loop, where the block *is* struck: it is cancelled, and ends with `TermLost`."""
        given_up = threading.Event()
        try:
            tenure = await asyncio.to_thread(self._led, wait_s, given_up)
        except asyncio.CancelledError:
            with self._turned:  # the thread that waits does not hear of it
                given_up.set()
                self._turned.notify_all()
            raise
        async with cancelled_at_end(tenure):
            yield tenure
        tenure.check()

    def resign(self) -> None:
        """Give the seat up soon, and stand back for two tries so that another gets it."""
        with self._turned:
            self._asked_to_resign = True
            self._turned.notify_all()

    def ask_to_stop(self) -> None:
        """See `Loop`."""
        super().ask_to_stop()
        with self._turned:
            self._is_ending = True
            self._turned.notify_all()

    def stop(self, deadline: Deadline) -> bool:
        """Resign and end: another leads at once."""
        self.ask_to_stop()
        ended = super().stop(deadline)
        if ended:
            try:
                self._step_down(Reason.RESIGNED)
            finally:
                self._election.close()
        return ended

    def _led(self, wait_s: float | None, given_up: threading.Event | None = None) -> Tenure:
        """Wait until this process leads, is to stop, or nobody waits any more; raise `NotLeading` where it does not."""

        def is_over() -> bool:
            return self.tenure is not None or self._is_ending or (given_up is not None and given_up.is_set())

        with self._turned:
            self._turned.wait_for(is_over, wait_s)
            tenure = self.tenure
        if tenure is None:
            raise NotLeading(lease=self.lease_name)
        return tenure

    def _round(self, stopping: threading.Event) -> None:
        if self._tenure is None:
            self._campaign(stopping)
        else:
            self._keep(self._tenure, stopping)

    def _campaign(self, stopping: threading.Event) -> None:
        if self._stays_out(stopping):
            return
        asked_s = self._clock.monotonic()
        number = self._election.campaign(self._timing.retry_s)
        if number is not None:
            self._become(number, asked_s)
            return
        events.emit(events.LEADER_PASSED_OVER, duty=self.duty)
        stopping.wait(max(0.0, asked_s + self._timing.retry_s - self._clock.monotonic()))

    def _stays_out(self, stopping: threading.Event) -> bool:
        """Wait while this process stands back; say whether it did."""
        if self._asked_to_resign:  # while it did not lead: it stands for nothing now
            self._step_down(Reason.RESIGNED)
        left_s = self._stays_out_until_s - self._clock.monotonic()
        if left_s > 0:
            stopping.wait(min(left_s, self._timing.retry_s))
        return left_s > 0

    def _become(self, number: int, asked_s: float) -> None:
        tenure = Tenure(self.lease_name, number, asked_s + self._timing.belief_s, self._clock)
        with self._turned:
            self._tenure = tenure
            self._turned.notify_all()
        events.emit(events.LEADER_BECAME, duty=self.duty, term=number)

    def _keep(self, tenure: Tenure, stopping: threading.Event) -> None:
        due_s = tenure.renewed_s + self._timing.renew_every_s
        self._rest(min(due_s - self._clock.monotonic(), tenure.left_s()), stopping)
        asked_s = self._clock.monotonic()
        if stopping.is_set():
            return  # `stop` resigns
        if self._asked_to_resign:
            self._step_down(Reason.RESIGNED)
        elif not tenure.holds():
            self._lose(tenure, Reason.EXPIRED)
        elif asked_s >= due_s:
            self._renew(tenure, asked_s, stopping)

    def _rest(self, seconds: float, stopping: threading.Event) -> None:
        """Wait, but not long: a loop that does not round counts as one that stands still."""
        seconds = max(0.0, min(seconds, self._timing.retry_s))
        with self._turned:
            self._turned.wait_for(lambda: stopping.is_set() or self._asked_to_resign, seconds)

    def _renew(self, tenure: Tenure, asked_s: float, stopping: threading.Event) -> None:
        try:
            self._election.renew(min(tenure.left_s(), self._timing.renew_every_s))
        except Unseated as over:
            self._lose(tenure, over.reason, error_text(over))
        except Transient as error:
            events.emit(events.LEADER_UNSURE, duty=self.duty, term=tenure.number, error=error_text(error))
            stopping.wait(min(self._timing.retry_s, max(0.0, tenure.left_s())))
        else:
            if not tenure.holds():  # the answer came too late: who led has been told so
                self._lose(tenure, Reason.EXPIRED)
                return
            tenure.renew(asked_s, self._timing.belief_s)
            events.emit(events.LEADER_RENEWED, duty=self.duty, term=tenure.number)

    def _lose(self, tenure: Tenure, reason: Reason, error: str = "") -> None:
        self._over(tenure, reason, error)
        self._election.close()

    def _step_down(self, reason: Reason) -> None:
        """Stop leading here first, and let others know after that."""
        self._asked_to_resign = False
        self._stays_out_until_s = self._clock.monotonic() + 2 * self._timing.retry_s
        if self._tenure is not None:
            self._over(self._tenure, reason)
        self._election.resign()

    def _over(self, tenure: Tenure, reason: Reason, error: str = "") -> None:
        self._tenure = None
        tenure.end(reason)
        held_s = round(self._clock.monotonic() - tenure.began_s, 3)
        events.emit(
            events.LEADER_LOST, duty=self.duty, term=tenure.number, reason=reason.value, held_s=held_s, error=error
        )
