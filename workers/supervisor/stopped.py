"""Kill a child that has been stopped (SIGSTOP, a debugger) for too long (`Stoppage`).

A job that stops its own process would hold it, its post and all that ran there for ever; the broker gives the job to
the next, which is stopped in turn. Which job it was nobody saw, so all that ran are suspects, as after any other death.
"""

from __future__ import annotations

from smena.clock import Clock
from workers.process.stoppage import Stoppage
from workers.supervisor.child_watches import ChildWatches
from workers.supervisor.crew import Crew


class Stopped:
    """The watch over children that are stopped. Call `step` each round."""

    def __init__(self, crew: Crew, bound_s: float, clock: Clock) -> None:
        self._crew = crew
        self._watches = ChildWatches(crew, lambda child: Stoppage(child.pid, bound_s, clock), clock)

    def step(self) -> None:
        """Look at each child, a few times a second."""
        for child, watch in self._watches.due():
            is_too_long, child.stopped_s = watch.look(), watch.stopped_s
            if is_too_long:
                self._crew.kill(child, f"it has been stopped for {child.stopped_s:.1f} s")
