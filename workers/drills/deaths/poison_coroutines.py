"""One job of a thousand coroutines that kills the process they all run in."""

from __future__ import annotations

from workers.drills.drill import Drill
from workers.drills.fleet import FleetPlan
from workers.drills.ground import Ground
from workers.drills.load import LoadPlan

_GOOD = 990
_LEAST = 900
_MS = 3_000
_MOST = 11
"""1 + ceil(log2(1,000)): the process that all ran in, and the halves."""
_FOUND_S = 30.0
_BAD = "drill.akills"


def fault(ground: Ground) -> None:
    """Put one bad job among 990 good ones; it must be found, and none of them pay."""
    ground.load.add("spread", ms=_MS, count=_GOOD // 2)
    ground.load.add("akills", ms=_MS // 2, guilty=True)
    ground.load.add("spread", ms=_MS, count=_GOOD - _GOOD // 2)
    ground.until(lambda: ground.sight.begun(_BAD) and len(ground.sight.started()) >= _LEAST, "a thousand coroutines")
    ground.strike(len(ground.sight.started()))
    found_s = ground.recovered(lambda: _BAD in ground.sight.letters(), "the bad one to be a dead letter", _FOUND_S * 2)
    ground.bar("found and put out, s", found_s, _FOUND_S)
    ground.bar("processes that it killed", len(ground.sight.begun(_BAD)), _MOST)


DRILL = Drill(
    name="poison-coroutines",
    group="deaths",
    summary="one of a thousand coroutines kills the process they all run in",
    fault=fault,
    least_bite=_LEAST,
    load=LoadPlan(ahead=6),
    fleet=FleetPlan(processes=1, settings={"worker_concurrency": 1_000, "database_connect_timeout_s": 30}),
)
