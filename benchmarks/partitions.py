"""Measure an ordered actor: how fast its full queue is worked off, and how soon its partitions have an owner again.

The drain is that of `drain.py`, by two worker processes. The limit is the same no-op actor without order and with
``once``, which order implies; beside it stands one without either. A round counts only if the jobs of each key also
started in the order of their sending. How partitions change hands is measured apart (`rebalance.py`); those figures are
the worst of all rounds.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks import drain, order, rebalance
from benchmarks.drain import Racer
from benchmarks.entrant import entrants
from benchmarks.ground import Ground
from benchmarks.proof import Proof
from benchmarks.report import Bar, Report, medians, ratio, ratios
from benchmarks.systems import SMENA_ORDERED, System

_KEPT = ("smena.once_keys", "smena.settlements")

BARS = (Bar("of_limit", 0.5), *rebalance.BARS)


def measure(systems: Sequence[System], ground: Ground, jobs: int, rounds: int) -> Report:
    """Run all systems in turn, round after round; then let members join, leave, die and freeze."""
    racers: list[Racer] = entrants(systems, ground, jobs)

    def check(system: System, proof: Proof) -> None:
        if system.partitions:
            order.check(proof)
        ground.empty(*_KEPT)

    for racer in racers:
        drain.tune(racer, jobs, check)
    for number in range(rounds):
        for racer in racers:
            racer.play_round(number, lambda: drain.proven_round(racer, check))  # noqa: B023 (called at once)
    for racer in racers:
        racer.killed_at = racer.attempt("killed", lambda: drain.killed_round(racer, check))  # noqa: B023
    figures = medians(racers)
    found = ratios(racers, figures, "rate", max)
    found["of_plain"] = ratio(figures, "unordered-plain", "rate")
    for racer in racers:
        if racer.system is SMENA_ORDERED:
            found |= racer.attempt("rebalance", lambda: rebalance.worst(ground, rounds)) or {}
    return Report("partitions", "jobs/s", racers, figures, found, BARS)
