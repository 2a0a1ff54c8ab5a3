"""Replace a child that holds a job which does not end: the new one first, then the old one has to go.

A condemned child has told which job it is, and tells of others there that pass their limits. It takes no more work
and has handed back what had not started. Its relief is started at once, beside whatever else is under way; when that
is ready the child is asked to drain, and ends when all but the stuck jobs have, or is killed when its budget is over.
One whose relief comes to nothing has to go all the same.
"""

from __future__ import annotations

from smena.clock import Clock
from smena.telemetry import events
from workers.supervisor.budgets import Budgets
from workers.supervisor.child import SupervisedChild
from workers.supervisor.crew import Crew
from workers.supervisor.culprit import Culprit
from workers.supervisor.relief import Relief


class Condemned:
    """The condemned children and their reliefs. Call `step` each round."""

    def __init__(self, crew: Crew, budgets: Budgets, clock: Clock) -> None:
        self._crew = crew
        self._budgets = budgets
        self._clock = clock
        self._since_s: dict[SupervisedChild, float] = {}
        self._reliefs: dict[SupervisedChild, Relief] = {}

    def step(self) -> None:
        """Go on with each."""
        for old, relief in list(self._reliefs.items()):
            relief.step()
            if relief.done:
                del self._reliefs[old]
                if relief.failure:
                    self._let_go(old)
        for child in self._crew.children:
            if child.culprits and not child.killed:
                self._look_at(child)
        self._since_s = {child: since_s for child, since_s in self._since_s.items() if child in self._crew.children}

    def _look_at(self, child: SupervisedChild) -> None:
        now = self._clock.monotonic()
        if child not in self._since_s:
            self._since_s[child] = now
            tell(child, child.culprits[0])
        if child.leave_by_s is not None or child in self._reliefs or self._is_being_relieved(child):
            return
        nursery = self._crew.nurseries.of(child.post.role.name)
        if nursery is None or nursery.state == "ready":
            relief = self._reliefs[child] = Relief(self._crew, child, "condemned", self._budgets, self._clock)
            relief.begin(nursery)
        elif now - self._since_s[child] > self._budgets.ready_s:
            self._let_go(child)

    def _is_being_relieved(self, child: SupervisedChild) -> bool:
        """Say whether a reload or a recycling has put another beside it."""
        return any(other.relieves is child for other in self._crew.children)

    def _let_go(self, child: SupervisedChild) -> None:
        if child in self._crew.children and child.leave_by_s is None:
            self._crew.dismiss(child, self._budgets.leave_s)


def tell(child: SupervisedChild, culprit: Culprit) -> None:
    """Tell for whose sake the child has to go."""
    events.emit(
        events.CHILD_CONDEMNED,
        role=child.post.role.name,
        post=child.post.name,
        child=child.pid,
        job=culprit.job_id,
        actor=culprit.actor,
        attempt=culprit.attempt,
        why=culprit.why,
    )
