"""SIGHUP under full load: every child is relieved, and the fleet does its work meanwhile."""

from __future__ import annotations

import signal

from workers.drills.bar import windows
from workers.drills.drill import Drill
from workers.drills.ground import Ground
from workers.drills.load import LoadPlan

_LEAST = 12
_BEFORE_S = 4.0
_WINDOW_S = 1.0
_RATE = 0.8


def fault(ground: Ground) -> None:
    """Reload, and compare the slowest second of it with the rate before."""
    ground.full()
    ground.go_on(_BEFORE_S)
    old = set(ground.fleet.workers())
    began = ground.sight.now()
    ground.strike(len(ground.sight.running()))
    ground.fleet.tell(signal.SIGHUP)
    ground.recovered(lambda: _is_reloaded(ground, old), "every worker to be relieved")
    ended = ground.sight.now()
    ground.go_on(_WINDOW_S * 1.5)  # what was taken in the last moment of the reload ends after it
    at = ground.sight.ended_at()
    before = sum(began - _BEFORE_S <= one < began for one in at) / _BEFORE_S
    slowest = min(windows(at, began, ended + _WINDOW_S, _WINDOW_S))
    ground.bar("slowest second of the reload, of the rate before", slowest / before, _RATE, at_most=False)
    ground.notes |= {"jobs a second before": before, "jobs in the slowest second": slowest}


def _is_reloaded(ground: Ground, old: set[int]) -> bool:
    now = set(ground.fleet.workers())
    return len(now) == ground.plan.processes and not now & (old | set(ground.fleet.leaving()))


DRILL = Drill(
    name="hup-under-load",
    group="deaths",
    summary="SIGHUP under full load: each child is relieved, the new one first",
    fault=fault,
    least_bite=_LEAST,
    load=LoadPlan(ahead=250, actors=("work",), outbox_every=0),
)
