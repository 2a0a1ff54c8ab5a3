"""Relieve children that have reached a limit of their lifespan: one at a time, the new one first."""

from __future__ import annotations

from smena.clock import Clock
from workers.supervisor.budgets import Budgets
from workers.supervisor.crew import Crew
from workers.supervisor.relief import Relief


class Recycling:
    """The relief that is under way, if one is. Call `step` each round."""

    def __init__(self, crew: Crew, budgets: Budgets, clock: Clock) -> None:
        self._crew = crew
        self._budgets = budgets
        self._clock = clock
        self._relief: Relief | None = None
        self._wait_until_s = 0.0

    @property
    def under_way(self) -> bool:
        """Whether a relief has begun and is not over."""
        return self._relief is not None

    def step(self, *, may_begin: bool = True) -> None:
        """Go on with the relief, or begin the next where one is due."""
        now = self._clock.monotonic()
        if self._relief is not None:
            self._relief.step()
            if self._relief.done:
                if self._relief.failure:
                    self._wait_until_s = now + self._budgets.ready_s
                self._relief = None
        elif may_begin and now >= self._wait_until_s:
            self._begin_next(now)

    def _begin_next(self, now_s: float) -> None:
        for child in self._crew.holders():
            why = child.limit_reached(now_s)
            nursery = self._crew.nurseries.of(child.post.role.name)
            if why and (nursery is None or nursery.state == "ready"):
                self._relief = Relief(self._crew, child, why, self._budgets, self._clock)
                self._relief.begin(nursery)
                return
