"""SIGKILL to the only worker, which runs a thousand coroutines: the next one must run them all again."""

from __future__ import annotations

import signal

from workers.drills.drill import Drill
from workers.drills.fleet import FleetPlan, send
from workers.drills.ground import Ground
from workers.drills.load import LoadPlan

_EACH = 1_000
_LEAST = 900
_MS = 8_000
_AGAIN_S = 10.0


def fault(ground: Ground) -> None:
    """Fill the worker and kill it; all of its jobs must run again within 10 s."""
    ground.load.add("spread", ms=_MS, count=_EACH)
    [victim, *_] = ground.fleet.workers()
    ground.until(lambda: len(ground.sight.started(victim)) >= _LEAST, f"{_LEAST} coroutines to run")
    with ground.stopped(victim):
        struck = list(ground.sight.started(victim))
        ground.strike(len(struck))
        send(victim, signal.SIGKILL)
    again_s = ground.recovered(lambda: not ground.sight.started(victim), "the killed worker's coroutines to run again")
    ground.bar("coroutines of the killed worker run again, s", again_s, _AGAIN_S)
    ground.notes["coroutines that ran in it"] = len(struck)


DRILL = Drill(
    name="kill-coroutines",
    group="deaths",
    summary="SIGKILL to the only worker, which runs a thousand coroutines",
    fault=fault,
    least_bite=_LEAST,
    load=LoadPlan(ahead=10),
    fleet=FleetPlan(processes=1, settings={"worker_concurrency": _EACH, "database_connect_timeout_s": 30}),
)
