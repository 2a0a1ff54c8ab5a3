"""SIGTERM to workers, then to the supervisor, under load: the drain that every deploy begins with."""

from __future__ import annotations

import signal
import time

from workers.drills.bar import worst_of_hundred
from workers.drills.drill import Drill
from workers.drills.fleet import is_alive, send
from workers.drills.ground import Ground
from workers.drills.load import LoadPlan

_ROUNDS = 12
_LEAST = 6
_EXIT_S = 1.5


def fault(ground: Ground) -> None:
    """Drain single workers again and again, then the whole fleet; what ran must be finished where it ran."""
    exits = [_drain_one(ground) for _ in range(_ROUNDS)]
    exits.append(_drain_all(ground))
    ground.bar(f"TERM to exit, s, p99 of {len(exits)}", worst_of_hundred(exits), _EXIT_S)
    ground.notes["TERM to exit, s"] = " ".join(f"{exit_s:.2f}" for exit_s in exits)
    ground.fleet.start()
    ground.fleet.wait_ready()
    ground.recovered(ground.sight.running, "jobs to run in the next fleet")


def _drain_one(ground: Ground) -> float:
    victim = ground.fleet.workers()[0]
    running = _busy(ground, victim)
    ground.strike(len(running))
    send(victim, signal.SIGTERM)
    took_s = ground.until(lambda: not is_alive(victim), "the worker to end")
    _require_finished(ground, running, {victim})
    ground.until(lambda: len(set(ground.fleet.workers()) - {victim}) == ground.plan.processes, "a new worker")
    return took_s


def _drain_all(ground: Ground) -> float:
    workers = set(ground.fleet.workers())
    running = list(ground.full())
    ground.strike(len(running))
    began = time.monotonic()
    ground.fleet.tell(signal.SIGTERM)
    code = ground.fleet.wait_exit(20)
    took_s = time.monotonic() - began
    ground.bar("exit code of the drain", code, 0)
    _require_finished(ground, running, workers)
    return took_s


def _busy(ground: Ground, victim: int) -> list[int]:
    ground.until(lambda: len(ground.sight.running(victim)) >= _LEAST, "the worker to be busy")
    return list(ground.sight.running(victim))


def _require_finished(ground: Ground, running: list[int], workers: set[int]) -> None:
    """Judge that what ran has ended, and in none but the drained processes."""
    strangers = ground.sight.done_by(running) - workers
    ground.note_worst("running jobs that a drain did not finish", len(strangers) + ground.sight.unended(running))


DRILL = Drill(
    name="term",
    group="deaths",
    summary="SIGTERM to single workers, then to the supervisor",
    fault=fault,
    load=LoadPlan(actors=("work", "awork", "work", "work")),
    least_bite=_LEAST * _ROUNDS,
)
