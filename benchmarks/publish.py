"""Measure how fast one process sends, each message confirmed, and how long a single send takes.

A round counts only if the queue then holds every id. In one more round the sender is killed half way;
every id that it had noted as safe must be in the queue.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.entrant import Entrant, entrants
from benchmarks.ground import Ground
from benchmarks.proof import Proof
from benchmarks.report import Bar, Report, medians, ratio, ratios
from benchmarks.running import STALL_S, Stalled, kill, send, sender
from benchmarks.sending import WARM_UP
from benchmarks.systems import System

Racer = Entrant[dict[str, float]]

_LONE = 400
_FEWEST = 200
_TRIAL_JOBS = 2000
_ROUND_S = 4.0
_LOOK_S = 0.002

BARS = (
    Bar("ratio_dramatiq", 10),
    Bar("ratio_single_dramatiq", 1.3, at_most=True),
    Bar("ratio_single_dramatiq_quorum", 1.15, at_most=True),
)


def measure(systems: Sequence[System], ground: Ground, jobs: int, rounds: int) -> Report:
    """Run all systems in turn, round after round."""
    racers: list[Racer] = entrants(systems, ground, jobs)
    for racer in racers:
        _size(racer, jobs)
    for number in range(rounds):
        for racer in racers:
            racer.play_round(number, lambda: _round(racer))  # noqa: B023 (called at once)
    for racer in racers:
        racer.killed_at = racer.attempt("killed", lambda: _killed_round(racer))  # noqa: B023
    figures = medians(racers)
    found = ratios(racers, figures, "rate", max)
    found["ratio_single_dramatiq"] = ratio(figures, "dramatiq", "single_p50_ms")
    found["ratio_single_dramatiq_quorum"] = ratio(figures, "dramatiq-quorum", "single_p50_ms")
    return Report("publish", "messages/s, ms", racers, figures, found, BARS)


def _size(racer: Racer, jobs: int) -> None:
    """Give a slow system as many messages as it sends in a round's time."""
    rate = racer.attempt("trial", lambda: _sent(racer, "bulk", min(jobs, _TRIAL_JOBS))["rate"])
    if rate is not None:
        racer.jobs = max(_FEWEST, min(jobs, int(rate * _ROUND_S)))


def _round(racer: Racer) -> dict[str, float]:
    rate = _sent(racer, "bulk", racer.jobs)["rate"]
    return {"rate": rate, "single_p50_ms": _sent(racer, "single", WARM_UP + _LONE)["p50_ms"]}


def _sent(racer: Racer, mode: str, jobs: int) -> dict[str, float]:
    """Send into an empty queue, prove that all of it is there, and return what the sender measured."""
    system, ground = racer.system, racer.ground
    ground.purge(system)
    proof = Proof(ground.folder / f"{system.name}.proof", jobs)
    measured = send(system, ground, proof, mode, jobs)
    proof.close()
    missing = jobs - len(set(ground.take_all(system)))
    if missing:
        raise Stalled(f"{missing} of {jobs} messages are not in the queue of {system.name}")
    return measured


def _killed_round(racer: Racer) -> int:
    """Kill the sender half way; return how many messages it had noted as safe."""
    system, ground, jobs = racer.system, racer.ground, racer.jobs
    ground.purge(system)
    proof = Proof(ground.folder / f"{system.name}.proof", jobs)
    with sender(system, ground, proof, "bulk", jobs) as process:
        give_up = time.monotonic() + STALL_S
        while len(proof.confirmed()) < jobs // 2:
            if process.poll() is not None or time.monotonic() > give_up:
                raise Stalled(f"the sender of {system.name} was not half way in time")
            time.sleep(_LOOK_S)
        kill(process)
    confirmed = proof.confirmed()
    proof.close()
    if len(confirmed) >= jobs - WARM_UP:
        raise Stalled(f"{system.name} had sent all {jobs} messages before the kill came: give it more")
    lost = confirmed - set(ground.take_all(system))
    if lost:
        raise Stalled(f"{system.name} lost {len(lost)} of {len(confirmed)} messages that it had noted as safe")
    return len(confirmed)
