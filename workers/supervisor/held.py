"""End a child whose interpreter is held by a job (`Standstill`), at once.

A moment later the broker would take its connection for dead and give its jobs to others, while it goes on with them
(P28). To blame is the job on whose thread the child spends its time. Where that serves several, or none does, all of
them are suspects: they run again apart, where the one that holds is found, and cost the others nothing.

Jobs begin a moment before their child says that it is ready, and one that holds it then keeps it from saying so. So a
child is watched from its birth. A boot may take its time: as long as no job runs, none holds it.
"""

from __future__ import annotations

from smena.clock import Clock
from workers.process.standstill import Holders, Standstill
from workers.supervisor.child import SupervisedChild
from workers.supervisor.child_watches import ChildWatches
from workers.supervisor.condemned import tell
from workers.supervisor.crew import Crew
from workers.supervisor.culprit import Culprit


class Held:
    """The watch over the children's links. Call `step` each round."""

    def __init__(self, crew: Crew, heartbeat_s: float, clock: Clock) -> None:
        self._crew = crew
        self._heartbeat_s = heartbeat_s
        self._clock = clock
        self._watches = ChildWatches(crew, self._watch, clock)

    def step(self) -> None:
        """Look at each child, a few times a second."""
        for child, watch in self._watches.due():
            if (holders := watch.look()) is not None:
                self._end(child, holders)

    def _watch(self, child: SupervisedChild) -> Standstill:
        return Standstill(child.pid, child.orders.file(child.pid, "flight"), self._heartbeat_s, self._clock)

    def _end(self, child: SupervisedChild, holders: Holders) -> None:
        holder = holders.culprit
        if holder is None:
            child.suspects = holders.jobs
        else:
            culprit = Culprit(holder.job_id, holder.actor, holder.attempt, holder.slot, "held_interpreter")
            child.culprits += (culprit,)
            tell(child, culprit)
        self._crew.kill(child, f"its link has not moved for {holders.still_s:.1f} s")
