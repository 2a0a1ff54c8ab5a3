"""Measure jobs that insert one row once: Smena's ``once``, a check written by hand in a Dramatiq actor, bare psycopg.

A round counts only if the table then holds each id once, the queue is empty, and nothing is doubled. One
more round has its worker killed half way; it must lose nothing and double nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchmarks import drain
from benchmarks.drain import Racer
from benchmarks.entrant import entrants
from benchmarks.ground import Ground
from benchmarks.proof import Proof
from benchmarks.report import Bar, Report, medians, ratios
from benchmarks.running import Stalled, await_effects, worker
from benchmarks.systems import System

TABLES = ("smena.once_keys", "bench.keys", "bench.effects")
BARS = (Bar("of_limit", 0.6), Bar("ratio_dramatiq", 1.5))


def measure(systems: Sequence[System], ground: Ground, jobs: int, rounds: int) -> Report:
    """Run all systems in turn, round after round."""
    racers: list[Racer] = entrants(systems, ground, jobs)
    ground.empty(*TABLES)

    def check(system: System, proof: Proof) -> None:
        _check(system, ground, proof.ids)

    on_broker = [racer for racer in racers if racer.system.queue]
    for racer in on_broker:
        drain.tune(racer, jobs, lambda _system, _proof: ground.empty(*TABLES))
    for number in range(rounds):
        for racer in racers:
            play = drain.proven_round if racer in on_broker else _bare_round
            racer.play_round(number, lambda: play(racer, check))  # noqa: B023 (called at once)
    for racer in on_broker:
        racer.killed_at = racer.attempt("killed", lambda: drain.killed_round(racer, check))  # noqa: B023
    figures = medians(racers)
    return Report("once", "jobs/s", racers, figures, ratios(racers, figures, "rate", max), BARS)


def _bare_round(racer: Racer, check: drain.Check) -> dict[str, float]:
    system, ground, jobs = racer.system, racer.ground, racer.jobs
    proof = Proof(ground.folder / f"{system.name}.proof", jobs)
    given = replace(system, command=(*system.command, str(jobs)))
    with worker(given, ground, proof.path) as process:
        await_effects(proof, jobs, system, process)
        process.wait(drain.PATIENCE_S)
        seconds = proof.seconds()
    check(system, proof)
    proof.close()
    return {"rate": jobs / seconds}


def _check(system: System, ground: Ground, jobs: int) -> None:
    """Raise `Stalled` unless each job has left its row, once; empty the tables."""
    with ground.database() as connection:
        row = connection.execute("SELECT count(*), count(DISTINCT job) FROM bench.effects").fetchone()
    rows, distinct = row or (0, 0)
    ground.empty(*TABLES)
    if (rows, distinct) != (jobs, jobs):
        raise Stalled(f"{system.name} lost {jobs - distinct} and doubled {rows - distinct} of {jobs} effects")
