"""Measure how fast a full queue of no-op jobs is worked off by one process with eight threads.

The clock runs from the first effect to the last, so the start of a process does not count. A round
counts only if every id has taken effect and the queue is empty. One more round is killed half way and
must lose nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.proof import Proof
from benchmarks.running import depth, environment, fill, kill, purge, wait_for, worker
from benchmarks.systems import DRAIN, System

TRIAL_SHARE = 4
"""A round that only looks for the best prefetch has a quarter of the jobs."""


@dataclass(frozen=True, slots=True)
class Drained:
    """One system's figures: jobs a second in each round, and how it was run."""

    system: System
    prefetch: int | None
    rates: tuple[float, ...]
    survived_kill: bool

    def rate(self) -> float:
        """Return the median."""
        return median(self.rates)


def measure(jobs: int, rounds: int, systems: Sequence[System] = DRAIN) -> list[Drained]:
    """Run all systems in turn, round after round."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        place = Path(folder)
        chosen = {system.name: _best_prefetch(system, jobs // TRIAL_SHARE, place) for system in systems}
        rates: dict[str, list[float]] = {system.name: [] for system in systems}
        for _ in range(rounds):
            for system in systems:
                rates[system.name].append(_round(system, jobs, chosen[system.name], place))
        return [
            Drained(
                system,
                chosen[system.name],
                tuple(rates[system.name]),
                _killed_round(system, jobs // TRIAL_SHARE, chosen[system.name], place),
            )
            for system in systems
        ]


def _best_prefetch(system: System, jobs: int, place: Path) -> int | None:
    if len(system.prefetches) < 2:
        return system.prefetches[0] if system.prefetches else None
    return max(system.prefetches, key=lambda prefetch: _round(system, jobs, prefetch, place))


def _round(system: System, jobs: int, prefetch: int | None, place: Path) -> float:
    """Return jobs a second of one proven round."""
    purge(system.queue)
    proof = Proof(place / f"{system.name}.proof", jobs)
    env = environment(system, proof.path, prefetch)
    fill(system, jobs, env)
    with worker(system, env, place / f"{system.name}.log") as process:
        wait_for(lambda: proof.effects() == jobs, f"{system.name} has not done all jobs", process)
        seconds = proof.seconds()
    wait_for(lambda: depth(system.queue) == 0, f"the queue of {system.name} is not empty")
    proof.close()
    return jobs / seconds


def _killed_round(system: System, jobs: int, prefetch: int | None, place: Path) -> bool:
    """Kill the worker half way, start another, and say whether every job took effect."""
    purge(system.queue)
    proof = Proof(place / f"{system.name}.proof", jobs)
    env = environment(system, proof.path, prefetch)
    fill(system, jobs, env)
    log = place / f"{system.name}.log"
    with worker(system, env, log) as process:
        wait_for(lambda: proof.effects() >= jobs // 2, f"{system.name} has not done half", process)
        kill(process)
    with worker(system, env, log) as process:
        wait_for(lambda: proof.effects() == jobs, f"{system.name} lost jobs to a kill", process)
    proof.close()
    return True
