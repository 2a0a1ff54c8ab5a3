"""Jobs that kill the process they run in, one way after the other, among good neighbours, on two hosts."""

from __future__ import annotations

from dataclasses import dataclass

from workers.drills.drill import Control, Drill
from workers.drills.fleet import FleetPlan
from workers.drills.ground import Ground
from workers.drills.load import LoadPlan

_LEAST = 12
_BESIDE_MS = 300
_FOUND_S = 20.0


@dataclass(frozen=True)
class Way:
    """One kind of poison: its actor, how its letter must say it died, and how often it may begin."""

    actor: str
    reason: str
    most: int


_WAYS = (
    # A process with 8 threads and 4 coroutines: 1 + ceil(log2(12)) of them at most, in the whole fleet.
    Way("kills", "crashed", 5),
    Way("segfault", "crashed", 5),
    Way("hoards", "exhausted", 1),  # a CPU step: it costs its own process, and none of the fleet's
    Way("backtracks", "exhausted", 1),  # its process is killed for it by name
)


def fault(ground: Ground) -> None:
    """Send one poison after the other into two busy fleets; each must be found, and nobody beside it pay."""
    other = ground.new_fleet()
    other.start()
    other.wait_ready()
    for way in _WAYS:
        _poison(ground, way)
    ground.recovered(ground.sight.running, "jobs to run")


def _poison(ground: Ground, way: Way) -> None:
    ground.until(lambda: len(ground.sight.running()) >= ground.plan.threads, "the fleets to be busy")
    actor = f"drill.{way.actor}"
    ground.load.add(way.actor, ms=_BESIDE_MS, guilty=True)
    ground.until(lambda: ground.sight.begun(actor), f"{way.actor} to begin")
    [process, *_] = ground.sight.begun(actor)
    ground.strike(1 + len(ground.sight.running(process)))
    found_s = ground.recovered(
        lambda: actor in ground.sight.letters(), f"{way.actor} to be a dead letter", _FOUND_S * 2
    )
    ground.bar(f"{way.actor}: found and put out, s", found_s, _FOUND_S)
    ground.bar(f"{way.actor}: began", len(ground.sight.begun(actor)), way.most)
    ground.bar(f"{way.actor}: letters that say other than {way.reason}", ground.sight.letters()[actor] != way.reason, 0)


DRILL = Drill(
    name="poison",
    group="deaths",
    summary="jobs that kill their process by signal or fault, take all memory, hold the interpreter",
    fault=fault,
    least_bite=_LEAST,
    load=LoadPlan(ahead=40),
    controls=(Control("by-delivery-count", "blamed"),),
    fleet=FleetPlan(processes=1, settings={"pool_max_memory_mib": 128, "pool_processes": 1}),
)
