"""The cache forgets everything, and is killed and started again: it holds only what may be lost."""

from __future__ import annotations

from workers.drills.drill import Drill
from workers.drills.ground import Ground

_LEAST = 8
_GOES_ON = 20


def fault(ground: Ground) -> None:
    """Empty it while workers are full, and kill it; work goes on all the time."""
    cache = ground.services.valkey
    ground.strike(len(ground.full()))
    cache.flush()
    _goes_on(ground)
    cache.kill()
    try:
        _goes_on(ground)
    finally:
        cache.start()
    ground.recovered(ground.fleet.is_ready, "the fleet to be ready")
    _goes_on(ground)


def _goes_on(ground: Ground) -> None:
    ended = len(ground.sight.ended_at())
    ground.until(lambda: len(ground.sight.ended_at()) >= ended + _GOES_ON, "jobs to go on")


DRILL = Drill(
    name="cache-flush",
    group="weather",
    summary="FLUSHALL to the cache, then SIGKILL and a start",
    fault=fault,
    least_bite=_LEAST,
    destructive=True,
)
