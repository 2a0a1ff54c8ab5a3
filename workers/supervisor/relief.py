"""Put a new child in the place of one that works, the new one first.

The relief is started beside the old child, which goes on working; only when the relief is ready (it takes jobs) is the
old one asked to drain. So the fleet never has less than it had. One relief at a time bounds what the change costs: one
process more. A relief that does not become ready is ended, and the old child stays as it was.
"""

from __future__ import annotations

from smena.clock import Clock
from smena.telemetry import events
from smena.telemetry.plain_text import error_text
from workers.supervisor.budgets import Budgets
from workers.supervisor.child import SupervisedChild
from workers.supervisor.crew import Crew
from workers.supervisor.nursery import NurseryHandle


class Relief:
    """One relief from its start to the old child's end. Call `step` each round until `done`."""

    def __init__(self, crew: Crew, old: SupervisedChild, why: str, budgets: Budgets, clock: Clock) -> None:
        self.done = False
        self.failure = ""
        """Why it came to nothing; set when it is done, or empty."""
        self._crew = crew
        self._old = old
        self._why = why
        self._budgets = budgets
        self._clock = clock
        self._began_s = clock.monotonic()
        self._short_since_s: float | None = None
        self._new: SupervisedChild | None = None

    def begin(self, nursery: NurseryHandle | None) -> None:
        """Start the new child, from that nursery if the role is forked."""
        try:
            self._new = self._crew.begin(self._old.post, nursery, relieves=self._old)
        except OSError as failure:
            self._end(f"it could not be started: {error_text(failure)}")

    def step(self) -> None:
        """Go on as far as it goes now."""
        new = self._new
        if self.done or new is None:
            return
        if self._short_since_s is None and (self._old.draining or self._old not in self._crew.children):
            self._short_since_s = self._clock.monotonic()
        if self._old.leave_by_s is not None or new.leave_by_s is not None:
            self.done = self._old not in self._crew.children
        elif new not in self._crew.children:
            self._end(new.failure or "it ended before it was ready")
        elif new.ready_s is not None:
            self._hand_over(new)
        elif self._clock.monotonic() - self._began_s > self._budgets.ready_s:
            self._crew.dismiss(new, 0.0)
            self._end(f"it was not ready within {self._budgets.ready_s:.3g} s")

    def _hand_over(self, new: SupervisedChild) -> None:
        new.relieves = None
        gap_s = self._gap_s(new)
        self._crew.tallies.note_gap(new.post.role.name, gap_s)
        if self._old not in self._crew.children:
            self.done = True
            return
        post, waited_s = new.post, self._clock.monotonic() - self._began_s
        self._crew.dismiss(self._old, self._budgets.leave_s)
        self._crew.tallies.count_replaced(post.role.name)
        events.emit(
            events.CHILD_RELIEVED,
            role=post.role.name,
            post=post.name,
            child=new.pid,
            relieves=self._old.pid,
            why=self._why,
            seconds=round(waited_s, 3),
            gap_s=round(gap_s, 4),
        )

    def _gap_s(self, new: SupervisedChild) -> float:
        """Return for how long the old one had left before the new one was ready."""
        if self._short_since_s is None or new.ready_s is None:
            return 0.0
        return max(0.0, new.ready_s - self._short_since_s)

    def _end(self, failure: str) -> None:
        self.done, self.failure = True, failure
        events.emit(
            events.RELIEF_FAILED,
            role=self._old.post.role.name,
            post=self._old.post.name,
            child=self._old.pid,
            why=self._why,
            error=failure,
        )
