"""Measure how fast a full queue of no-op jobs is worked off by one process with eight threads.

The clock runs from the first start to the last, so the start of a process does not count. A round counts
only if every id has taken effect and the queue is empty. One more round is killed half way and must lose
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.entrant import Entrant, entrants
from benchmarks.ground import Ground
from benchmarks.proof import Proof
from benchmarks.report import Bar, Report, medians, ratio, ratios
from benchmarks.running import Stalled, await_effects, kill, send, wait_for, wait_settled, worker
from benchmarks.systems import System

Racer = Entrant[dict[str, float]]
Check = Callable[[System, Proof], None]
"""Look for more than that all ids took effect; raise `Stalled` otherwise."""

_FEWEST = 200
_TRIAL_JOBS = 3000
_MOST = 100_000
_LOOK_S = 0.001
_ROUND_S = 4.0
"""A round of a slow system has as many jobs as it does in that time, so that the whole run ends in minutes."""

PATIENCE_S = 30.0

BARS = (Bar("ratio_dramatiq", 4), Bar("ratio_best_peer", 2))


def measure(systems: Sequence[System], ground: Ground, jobs: int, rounds: int) -> Report:
    """Run all systems in turn, round after round."""
    racers: list[Racer] = entrants(systems, ground, jobs)
    for racer in racers:
        tune(racer, jobs)
    for number in range(rounds):
        for racer in racers:
            racer.play_round(number, lambda: proven_round(racer))  # noqa: B023 (called at once)
    for racer in racers:
        racer.killed_at = racer.attempt("killed", lambda: killed_round(racer))  # noqa: B023
    figures = medians(racers)
    found = ratios(racers, figures, "rate", max)
    found["ratio_dramatiq_quorum"] = ratio(figures, "dramatiq-quorum", "rate")
    return Report("drain", "jobs/s", racers, figures, found, BARS)


def tune(racer: Racer, jobs: int, check: Check | None = None) -> float | None:
    """Choose the best prefetch and as many jobs as make a round; return the rate that was seen."""
    few = min(jobs, _TRIAL_JOBS)
    rate = racer.choose_prefetch(lambda prefetch: _round(racer, few, prefetch, check))
    if rate is not None:
        racer.jobs = max(_FEWEST, min(jobs, int(rate * _ROUND_S)))
    return rate


def proven_round(racer: Racer, check: Check | None = None) -> dict[str, float]:
    """Return jobs a second of one round."""
    return {"rate": _round(racer, racer.jobs, racer.prefetch, check)}


def _round(racer: Racer, jobs: int, prefetch: int | None, check: Check | None) -> float:
    system, ground = racer.system, racer.ground
    ground.purge(system)
    proof = Proof(ground.folder / f"{system.name}.proof", jobs)
    send(system, ground, proof, "bulk", jobs)
    with worker(system, ground, proof.path, prefetch) as process:
        await_effects(proof, jobs, system, process)
        seconds = proof.seconds()
    wait_settled(system, ground)
    if check is not None:
        check(system, proof)
    proof.close()
    return jobs / seconds


def killed_round(racer: Racer, check: Check | None = None) -> int:
    """Kill the worker half way, start another; return how many jobs had taken effect at the kill.

    A system that is done before the kill bites gets twice as many jobs.
    """
    jobs = max(_FEWEST, racer.jobs // 2)
    while (effects := _killed_at(racer, jobs, check)) == jobs:
        if jobs > _MOST:
            raise Stalled(f"{racer.system.name} was done with {jobs} jobs before the kill came")
        jobs *= 2
    return effects


def _killed_at(racer: Racer, jobs: int, check: Check | None) -> int:
    system, ground = racer.system, racer.ground
    ground.purge(system)
    proof = Proof(ground.folder / f"{system.name}.proof", jobs)
    send(system, ground, proof, "bulk", jobs)
    with worker(system, ground, proof.path, racer.prefetch) as process:
        await_effects(proof, jobs // 2, system, process, look_s=_LOOK_S)
        kill(process)
    effects = proof.effects()
    with worker(system, ground, proof.path, racer.prefetch) as process:
        await_effects(proof, jobs, system, process)
        # What was done and not acked before the kill comes again, when all effects may long be there.
        wait_for(lambda: ground.is_taken(system), f"{system.name} has not taken what came back", process)
    wait_settled(system, ground)
    if check is not None:
        check(system, proof)
    proof.close()
    return effects
