"""SIGTERM to the supervisor and all of its children at once, as a careless service manager sends it."""

from __future__ import annotations

import signal
import time

from workers.drills.drill import Drill
from workers.drills.ground import Ground
from workers.drills.load import LoadPlan

_LEAST = 12
_EXIT_S = 12.0
"""The drain budget in drills, and the grace."""


def fault(ground: Ground) -> None:
    """Tell everybody; it must be one drain, with nothing killed and nobody left."""
    running = list(ground.full())
    ground.strike(len(running))
    began = time.monotonic()
    ground.fleet.tell_all(signal.SIGTERM)
    code = ground.fleet.wait_exit(_EXIT_S * 2)
    ground.bar("TERM to exit, s", time.monotonic() - began, _EXIT_S)
    ground.bar("exit code", code, 0)
    ground.bar("processes left", len(ground.fleet.members()), 0)
    ground.bar("running jobs that the drain did not finish", ground.sight.unended(running), 0)
    ground.fleet.start()
    ground.fleet.wait_ready()
    ground.recovered(ground.sight.running, "jobs to run in the next fleet")


DRILL = Drill(
    name="term-group",
    group="deaths",
    summary="SIGTERM to the supervisor and all of its children at once",
    fault=fault,
    load=LoadPlan(actors=("work", "awork", "work", "work")),
    least_bite=_LEAST,
)
