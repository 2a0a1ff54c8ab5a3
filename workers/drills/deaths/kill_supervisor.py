"""SIGKILL to the supervisor under load: its children must not go on unwatched."""

from __future__ import annotations

from workers.drills.drill import Control, Drill
from workers.drills.ground import Ground

_LEAST = 12
_GONE_S = 2.0
_AGAIN_S = 3.0


def fault(ground: Ground) -> None:
    """Kill the supervisor, see its children follow it, and start another in the same folder."""
    ground.full()
    workers = ground.fleet.workers()
    struck = ground.kill(ground.fleet.pid, *workers, least=_LEAST, only=[ground.fleet.pid])
    gone_s = ground.until(lambda: not ground.fleet.members(), "the children to end with the supervisor")
    ground.bar("children gone after the supervisor, s", gone_s, _GONE_S)
    ground.fleet.wait_exit(5)
    ground.fleet.start()
    ground.fleet.wait_ready()
    again_s = ground.until(lambda: ground.sight.are_back(struck, workers), "the struck jobs to run again")
    ground.bar("struck jobs run again after the next fleet is ready, s", again_s, _AGAIN_S)
    ground.recovered(lambda: True, "all that")


DRILL = Drill(
    name="kill-supervisor",
    group="deaths",
    summary="SIGKILL to the supervisor; its children end with it, and another takes over",
    fault=fault,
    least_bite=_LEAST,
    controls=(Control("ack-first", "lost"),),
)
