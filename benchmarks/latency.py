"""Measure the time from the call that sends a job to its start: idle, and at half load.

Half load is half of what plain Dramatiq drains on this machine, the same for every system. Both times
are of one clock that all processes of the machine share, the first taken just before the call to send.
A round counts only if every id has started and the queue is empty. One more round at half load has its
worker killed half way and must lose nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks import drain
from benchmarks.drain import Racer
from benchmarks.entrant import entrants
from benchmarks.ground import Ground
from benchmarks.proof import Proof
from benchmarks.report import Bar, Report, medians, ratio, ratios
from benchmarks.running import await_effects, kill, send, sender, wait_for, wait_settled, worker
from benchmarks.sending import WARM_UP
from benchmarks.systems import DRAMATIQ, System

_LOAD_S = 4.0
_TRIAL_JOBS = 5000

BARS = (
    Bar("ratio_dramatiq", 1.2, at_most=True),
    Bar("ratio_dramatiq_p99", 1.5, at_most=True),
    Bar("ratio_dramatiq_quorum", 1.0, at_most=True),
)


def measure(systems: Sequence[System], ground: Ground, jobs: int, rounds: int) -> Report:
    """Run all systems in turn, round after round; ``jobs`` is how many are sent one at a time."""
    racers: list[Racer] = entrants(systems, ground, jobs)
    load = _half_load(racers, ground)
    for racer in racers:
        racer.jobs = WARM_UP + jobs
    for number in range(rounds):
        for racer in racers:
            racer.play_round(number, lambda: _round(racer, load))  # noqa: B023 (called at once)
    for racer in racers:
        racer.killed_at = racer.attempt("killed", lambda: _killed_round(racer, load))  # noqa: B023
    figures = medians(racers)
    found = ratios(racers, figures, "idle_p50_ms", min)
    found["ratio_dramatiq_p99"] = ratio(figures, "dramatiq", "idle_p99_ms")
    found["ratio_dramatiq_quorum"] = ratio(figures, "dramatiq-quorum", "idle_p50_ms")
    found["ratio_dramatiq_loaded"] = ratio(figures, "dramatiq", "loaded_p50_ms")
    return Report("latency", "ms", racers, figures, found, BARS, {"load_per_s": load})


def _half_load(racers: Sequence[Racer], ground: Ground) -> float:
    """Choose each one's prefetch by draining; return half of plain Dramatiq's rate."""
    rates = {racer.system.name: drain.tune(racer, _TRIAL_JOBS) for racer in racers}
    rate = rates.get(DRAMATIQ.name) or drain.tune(entrants([DRAMATIQ], ground, _TRIAL_JOBS)[0], _TRIAL_JOBS)
    return (rate or 1000.0) / 2


def _round(racer: Racer, load: float) -> dict[str, float]:
    return {
        **_measured(racer, "idle", racer.jobs),
        **_measured(racer, "paced", max(2 * WARM_UP, int(load * _LOAD_S)), load),
    }


def _measured(racer: Racer, mode: str, jobs: int, *rate: float) -> dict[str, float]:
    """Send in one mode to a running worker; return median and 99th percentile of the times to start."""
    system, ground = racer.system, racer.ground
    ground.purge(system)
    proof = Proof(ground.folder / f"{system.name}.proof", jobs)
    with worker(system, ground, proof.path, racer.prefetch) as process:
        send(system, ground, proof, mode, jobs, *rate)
        await_effects(proof, jobs, system, process)
    wait_settled(system, ground)
    times = sorted(proof.latencies_s(first=WARM_UP))
    proof.close()
    name = "idle" if mode == "idle" else "loaded"
    return {
        f"{name}_p50_ms": times[len(times) // 2] * 1000,
        f"{name}_p99_ms": times[int(len(times) * 0.99)] * 1000,
    }


def _killed_round(racer: Racer, load: float) -> int:
    """Kill the worker half way under load; return how many jobs had started."""
    system, ground, jobs = racer.system, racer.ground, max(2 * WARM_UP, int(load * _LOAD_S / 2))
    ground.purge(system)
    proof = Proof(ground.folder / f"{system.name}.proof", jobs)
    with (
        worker(system, ground, proof.path, racer.prefetch) as process,
        sender(system, ground, proof, "paced", jobs, load) as sending,
    ):
        await_effects(proof, jobs // 2, system, process)
        kill(process)
        effects = proof.effects()
        wait_for(lambda: sending.poll() is not None, f"{system.name} has not sent all")
    with worker(system, ground, proof.path, racer.prefetch) as process:
        await_effects(proof, jobs, system, process)
    wait_settled(system, ground)
    proof.close()
    return effects
