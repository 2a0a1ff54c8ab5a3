"""SIGKILL to one worker process in the middle of its jobs."""

from __future__ import annotations

from workers.drills.drill import Control, Drill
from workers.drills.ground import Ground

_AGAIN_S = 3.0
_LEAST = 6


def fault(ground: Ground) -> None:
    """Kill a worker that is full; its jobs must run elsewhere within 3 s."""
    [victim, *_] = ground.fleet.workers()
    ground.full(victim)
    struck = ground.kill(victim, least=_LEAST)
    again_s = ground.recovered(lambda: ground.sight.are_back(struck, [victim]), "the killed worker's jobs to run again")
    ground.bar("jobs of the killed worker run again, s", again_s, _AGAIN_S)
    ground.until(lambda: len(set(ground.fleet.workers()) - {victim}) == ground.plan.processes, "a new worker")


DRILL = Drill(
    name="kill-worker",
    group="deaths",
    summary="SIGKILL to a worker process in the middle of its jobs",
    fault=fault,
    least_bite=_LEAST,
    controls=(Control("ack-first", "lost"), Control("no-once-key", "doubled")),
)
