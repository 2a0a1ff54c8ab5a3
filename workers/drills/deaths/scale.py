"""TTIN and TTOU under load: more worker processes, then fewer than before."""

from __future__ import annotations

import signal

from workers.drills.drill import Drill
from workers.drills.ground import Ground
from workers.drills.load import LoadPlan

_LEAST = 12


def fault(ground: Ground) -> None:
    """Go from two workers to four, to one, and back to two, while jobs run."""
    few = ground.plan.processes
    _go_to(ground, few + 2)
    ground.full()
    before = set(ground.fleet.workers())
    running = ground.sight.running()
    _tell(ground, few + 1, signal.SIGTTOU)
    ground.strike(len(running))
    ground.recovered(lambda: len(ground.fleet.workers()) == 1 and not ground.fleet.leaving(), "three workers to leave")
    gone = before - set(ground.fleet.workers())
    ended = [number for number, process in running.items() if process in gone]
    ground.bar("running jobs that a leaving worker did not finish", ground.sight.unended(ended), 0)
    _go_to(ground, few)
    ground.full()


def _go_to(ground: Ground, count: int) -> None:
    _tell(ground, count - len(ground.fleet.workers()), signal.SIGTTIN)
    ground.until(lambda: len(ground.fleet.workers()) == count, f"{count} workers")
    ground.fleet.wait_ready()


def _tell(ground: Ground, times: int, number: signal.Signals) -> None:
    """Send a signal so many times; two of a kind that meet would be one, so each is seen to act."""
    for _ in range(times):
        before = len(ground.fleet.workers())
        ground.fleet.tell(number)
        ground.until(lambda seen=before: len(ground.fleet.workers()) != seen, "the signal to act")  # type: ignore[misc]


DRILL = Drill(
    name="scale",
    group="deaths",
    summary="TTIN and TTOU: two workers, four, one, two",
    fault=fault,
    load=LoadPlan(actors=("work", "awork", "work", "work")),
    least_bite=_LEAST,
)
