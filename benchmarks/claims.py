"""Measure a batch of no-op items from open to complete by two worker processes: items a second.

The workers are up and idle when the batch is opened. The clock runs from just before that, through the writing of all
items, until the batch is complete, by the database's clock; leases and terms are on. It is measured with one call for
a slice (``smena``) and one for each item (``smena-item``), and both once more while a snapshot is held from before the
first item to after the last. The limit sends the same statements from two bare psycopg processes and calls nobody.

The peers keep a row for each job. They get a twentieth of the items: their rate does not grow with the number. With how
many jobs at a time each is best is tried first. A round counts only if every item took effect and nothing is left. One
more round has its workers killed half way and must lose nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from benchmarks.drain import Racer
from benchmarks.entrant import entrants
from benchmarks.ground import Ground
from benchmarks.proof import Proof
from benchmarks.report import Bar, Report, medians, ratio
from benchmarks.running import Process, Stalled, kill, wait_for, worker
from benchmarks.systems import System

BARS = (
    Bar("of_limit", 0.6),
    Bar("of_limit_item", 0.35),
    Bar("ratio_best_peer", 2),
    Bar("held_share", 0.7),
)

_PEERS_SHARE: Final = 20
_TRIALS_SHARE: Final = 4
_PEERS_FEWEST: Final = 200
_PEERS_WARM: Final = 200
_OPEN_S: Final = 100.0
_WARM: Final = 2000
_KILLED_TIMES: Final = 4
"""So many times the items in the round that is killed: else it is over before the kill comes."""

_TABLES: Final = ("smena.batches", "smena.batch_items", "smena.batch_slices", "smena.batch_marks", "smena.batch_dead")
_ENDED: Final = "SELECT CAST(extract(epoch FROM ended_at) AS float8) FROM smena.batches WHERE id = %s"
_LEFT: Final = "SELECT coalesce(sum(last - first + 1), 0) FROM smena.batch_slices WHERE batch = %s"
_SHORT_LEASE: Final = {"SMENA_BATCHES_LEASE_S": "2"}


def measure(systems: Sequence[System], ground: Ground, jobs: int, rounds: int) -> Report:
    """Run all systems in turn, round after round."""
    racers: list[Racer] = entrants(systems, ground, jobs)
    for racer in racers:
        if racer.system.family == "table":
            racer.jobs = max(_PEERS_FEWEST, jobs // _PEERS_SHARE)
            trial = max(_PEERS_FEWEST, racer.jobs // _TRIALS_SHARE)
            racer.choose_prefetch(lambda concurrency: _peers_rate(racer, trial, concurrency))  # noqa: B023
    for number in range(rounds):
        for racer in racers:
            racer.play_round(number, lambda: _round(racer))  # noqa: B023 (called at once)
    for racer in racers:
        if racer.system.family == "smena":
            racer.killed_at = racer.attempt("killed", lambda: _killed_round(racer))  # noqa: B023
    figures = medians(racers)
    return Report("claims", "items/s", racers, figures, _ratios(figures), BARS)


def _ratios(figures: dict[str, dict[str, float]]) -> dict[str, float | None]:
    def share(one: str, other: str, figure: str = "rate") -> float | None:
        ours, theirs = figures.get(one, {}).get("rate"), figures.get(other, {}).get(figure)
        return theirs / ours if ours and theirs else None

    best = max(("procrastinate", "pgqueuer"), key=lambda peer: figures.get(peer, {}).get("rate", 0.0))
    return {
        "ratio_dramatiq": None,  # those peers have no batches
        "ratio_celery": None,
        "ratio_best_peer": share(best, "smena-item"),
        "of_limit": ratio(figures, "bare-claims", "rate"),
        "of_limit_item": share("bare-claims", "smena-item"),
        "held_share": share("smena", "smena", "held"),
        "held_share_item": share("smena-item", "smena-item", "held"),
    }


def _round(racer: Racer) -> dict[str, float]:
    if racer.system.family == "table":
        return {"rate": _peers_rate(racer, racer.jobs, racer.prefetch)}
    found = {"rate": _rate(racer)}
    with _held_snapshot(racer.ground):
        found["held"] = _rate(racer)
    return found


# --- batches --------------------------------------------------------------------------------------


def _rate(racer: Racer) -> float:
    racer.ground.empty(*_TABLES)
    with _proven(racer, racer.jobs) as (proof, process):
        _run(racer, proof, process, _WARM)
        seconds = _run(racer, proof, process, racer.jobs)
        if racer.system.family != "limit":
            _prove(racer, proof, racer.jobs)
    return racer.jobs / seconds


@contextmanager
def _proven(racer: Racer, jobs: int, **environment: str) -> Iterator[tuple[Proof, Process]]:
    """Run the system's workers for the block, with a fresh proof."""
    proof = Proof(racer.ground.folder / f"{racer.system.name}.proof", max(jobs, _WARM))
    try:
        with worker(racer.system.plus(**environment), racer.ground, proof.path) as process:
            yield proof, process
    finally:
        proof.close()


def _run(racer: Racer, proof: Proof, process: Process, count: int) -> float:
    """Open a batch and wait for its end; return the seconds between."""
    opened = _call(racer, proof, "open", count)
    with racer.ground.database() as connection:
        connection.autocommit = True
        wait_for(lambda: _one(connection, _ENDED, opened["batch"]) is not None, "the batch does not end", process)
        ended_at = float(_one(connection, _ENDED, opened["batch"]))
        if left := _one(connection, _LEFT, opened["batch"]):
            raise Stalled(f"{left} items are left of a batch that has ended")
    return ended_at - float(opened["began_at"])


def _killed_round(racer: Racer) -> int:
    """Kill the workers half way, start others; return how many items had taken effect at the kill."""
    racer.ground.empty(*_TABLES)
    jobs = racer.jobs * _KILLED_TIMES
    with _proven(racer, jobs, **_SHORT_LEASE) as (proof, process):
        _run(racer, proof, process, _WARM)
        opened = _call(racer, proof, "open", jobs)
        wait_for(lambda: proof.effects() > _WARM, "the workers have not begun", process)
        kill(process)
        done = proof.effects()
        if done >= jobs:
            raise Stalled(f"all {jobs} items were done before the kill came: give it more")
        with (
            worker(racer.system.plus(**_SHORT_LEASE), racer.ground, proof.path) as other,
            racer.ground.database() as db,
        ):
            db.autocommit = True
            wait_for(lambda: _one(db, _ENDED, opened["batch"]) is not None, "the batch does not end", other)
        _prove(racer, proof, jobs)
    return done


def _prove(racer: Racer, proof: Proof, jobs: int) -> None:
    """Raise `Stalled` unless every item took effect."""
    if (effects := proof.effects()) < jobs:
        raise Stalled(f"{racer.system.name} lost {jobs - effects} of {jobs} items")


@contextmanager
def _held_snapshot(ground: Ground) -> Iterator[None]:
    """Keep a snapshot for the block: nothing that dies meanwhile can be vacuumed away."""
    with ground.database() as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT 1")
        yield


# --- peers ----------------------------------------------------------------------------------------


def _peers_rate(racer: Racer, jobs: int, concurrency: int | None) -> float:
    proof = Proof(racer.ground.folder / f"{racer.system.name}.proof", max(jobs, _PEERS_WARM))
    try:
        said = _call(racer, proof, "prepare", 0)
        with racer.ground.database() as connection:
            connection.autocommit = True
            connection.execute(said["forget"].encode())
            with worker(racer.system, racer.ground, proof.path, concurrency) as process:
                _call(racer, proof, "open", _PEERS_WARM)
                wait_for(lambda: _one(connection, said["left"]) == 0, "jobs are left", process)
                began_at = float(_call(racer, proof, "open", jobs)["began_at"])
                wait_for(lambda: _one(connection, said["left"]) == 0, "jobs are left", process)
                seconds = time.time() - began_at
        _prove(racer, proof, jobs)
    finally:
        proof.close()
    return jobs / seconds


def _call(racer: Racer, proof: Proof, what: str, count: int) -> dict[str, Any]:
    """Have the system's own module do something in a process of its own; return what it tells."""
    done = subprocess.run(
        [sys.executable, "-m", racer.system.module, what, str(count)],
        cwd=racer.ground.folder,
        env=racer.ground.environment(racer.system, proof.path),
        capture_output=True,
        text=True,
        timeout=_OPEN_S,
        check=False,
    )
    if done.returncode:
        raise Stalled(f"{racer.system.name} could not {what}: {done.stderr[-800:]}")
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def _one(connection: Any, query: str, *values: object) -> Any:
    row = connection.execute(query.encode(), values).fetchone()
    return None if row is None else row[0]
