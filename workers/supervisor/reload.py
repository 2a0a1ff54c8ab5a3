"""Renew all children by the code and settings as they are now: one at a time, the new one first.

First a fresh nursery for each forked role loads the code. Then one child after the other is relieved. A role's fresh
nursery follows the old one when the first child from it is ready, which shows that the new code works: until then a
dead child is replaced with the old code, from then on with the new. The reload stops, and says so, at the first thing
that does not become ready; who works goes on working, and the next HUP tries again.
"""

from __future__ import annotations

from smena.clock import Clock
from smena.telemetry import events
from smena.telemetry.plain_text import error_text
from workers.supervisor.budgets import Budgets
from workers.supervisor.child import SupervisedChild
from workers.supervisor.crew import Crew
from workers.supervisor.nursery import NurseryHandle
from workers.supervisor.relief import Relief


class Reload:
    """One rolling reload. Call `step` each round until `done`."""

    def __init__(self, crew: Crew, budgets: Budgets, clock: Clock) -> None:
        self.done = False
        self._crew = crew
        self._budgets = budgets
        self._clock = clock
        self._began_s = clock.monotonic()
        self._fresh: dict[str, NurseryHandle] = {}
        self._relief: Relief | None = None
        self._relieved = 0

    def begin(self) -> None:
        """Start the fresh nurseries."""
        events.emit(events.RELOAD_STARTED, children=len(self._crew.holders()))
        try:
            self._fresh = self._crew.nurseries.try_fresh(self._began_s)
        except OSError as failure:
            self._stop(f"a fresh nursery could not be started: {error_text(failure)}")

    def step(self) -> None:
        """Go on as far as it goes now."""
        if not self.done and self._nurseries_are_ready() and self._relief_is_over():
            self._take_over()
            old = self._next()
            if old is None:
                self._finish()
            else:
                self._relief = Relief(self._crew, old, "reload", self._budgets, self._clock)
                self._relief.begin(self._fresh.get(old.post.role.name))

    def _nurseries_are_ready(self) -> bool:
        for role, nursery in self._fresh.items():
            if nursery.state == "gone":
                self._stop(f"the fresh nursery of {role} ended: {nursery.failure or 'it did not say why'}")
            elif nursery.state == "loading":
                if self._clock.monotonic() - self._began_s > self._budgets.ready_s:
                    self._stop(f"the fresh nursery of {role} was not ready within {self._budgets.ready_s:.3g} s")
                return False
        return not self.done

    def _relief_is_over(self) -> bool:
        relief = self._relief
        if relief is None:
            return True
        relief.step()
        if relief.failure:
            self._stop(relief.failure)
        elif relief.done:
            self._relieved += 1
        return relief.done and not relief.failure

    def _take_over(self) -> None:
        """Let a fresh nursery be the role's own once a child of it is ready, or there is none to relieve."""
        for role, nursery in self._fresh.items():
            holders = [child for child in self._crew.holders() if child.post.role.name == role]
            if self._crew.nurseries.of(role) is nursery:
                continue
            if not holders or any(child.nursery is nursery and child.ready_s is not None for child in holders):
                self._crew.nurseries.take_over(role)
                for post in self._crew.posts:
                    if post.role.name == role:
                        post.try_anew(self._clock.monotonic())

    def _next(self) -> SupervisedChild | None:
        """Return the next child that holds a post with what was there before."""
        return next((child for child in self._crew.holders() if self._is_old(child)), None)

    def _is_old(self, child: SupervisedChild) -> bool:
        fresh = self._fresh.get(child.post.role.name)
        return child.started_s < self._began_s if fresh is None else child.nursery is not fresh

    def _finish(self) -> None:
        self.done = True
        seconds = round(self._clock.monotonic() - self._began_s, 3)
        events.emit(events.RELOAD_FINISHED, relieved=self._relieved, seconds=seconds)

    def _stop(self, why: str) -> None:
        self.done = True
        self._crew.nurseries.give_up_trial()
        left = sum(map(self._is_old, self._crew.holders()))
        events.emit(events.RELOAD_STOPPED, why=why, relieved=self._relieved, left=left)
