"""SIGQUIT to the supervisor under load: end now, and give everything back."""

from __future__ import annotations

import signal
import time

from workers.drills.drill import Control, Drill
from workers.drills.ground import Ground
from workers.process.exits import Exit

_LEAST = 12
_EXIT_S = 2.0


def fault(ground: Ground) -> None:
    """Send QUIT; all ends at once, and the jobs run in the next fleet."""
    workers = ground.fleet.workers()
    struck = list(ground.full())
    ground.strike(len(struck))
    began = time.monotonic()
    ground.fleet.tell(signal.SIGQUIT)
    code = ground.fleet.wait_exit(10)
    ground.bar("QUIT to exit, s", time.monotonic() - began, _EXIT_S)
    ground.bar("exit code, off from 4", abs(code - Exit.ENDED_NOW), 0)
    ground.bar("processes left", len(ground.fleet.members()), 0)
    ground.fleet.start()
    ground.fleet.wait_ready()
    ground.recovered(lambda: ground.sight.are_back(struck, workers), "the struck jobs to run again")


DRILL = Drill(
    name="quit",
    group="deaths",
    summary="SIGQUIT to the supervisor: end now, jobs go back",
    fault=fault,
    least_bite=_LEAST,
    controls=(Control("ack-first", "lost"),),
)
