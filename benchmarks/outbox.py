"""Measure the way from a commit to the broker's confirm by one relay: rows a second, and the wait of a lone row.

The relay is up and idle when one transaction commits all rows; the clock runs from just before that
commit to the last row marked as sent, both by the database's clock. A round counts only if the queue
then holds every id. One more round has its relay killed half way and must lose nothing: its rows come
when the dead relay's lease is over. Beside it the bare figure: claim, publish and mark in a minimal loop.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from benchmarks.drain import Racer
from benchmarks.entrant import entrants
from benchmarks.ground import Ground
from benchmarks.peers.smena_app import noop
from benchmarks.report import Bar, Report, medians, ratio
from benchmarks.running import Process, Stalled, kill, wait_for, worker
from benchmarks.systems import System
from smena import outbox

BARS = (Bar("rate", 8000), Bar("idle_p50_ms", 20, at_most=True))

_LONE = 100
_FEWEST = 2000
_CHUNK = 1000

_SPAN = "SELECT extract(epoch FROM max(sent_at) - %s) FROM smena.outbox"
_BARE_SPAN = "SELECT extract(epoch FROM max(sent_at) - min(sent_at)), count(DISTINCT sent_at) FROM smena.outbox"
_PENDING = "SELECT 1 FROM smena.outbox WHERE state = 'pending' LIMIT 1"
_SENT = "SELECT count(*) FROM smena.outbox WHERE state = 'sent'"
_SENT_AT = "SELECT id, extract(epoch FROM sent_at) FROM smena.outbox"


def measure(systems: Sequence[System], ground: Ground, jobs: int, rounds: int) -> Report:
    """Run the relay and the bare loop in turn."""
    racers: list[Racer] = entrants(systems, ground, jobs)
    for number in range(rounds):
        for racer in racers:
            racer.play_round(number, lambda: _round(racer))  # noqa: B023 (called at once)
    for racer in racers:
        if racer.system.family == "smena":
            racer.killed_at = racer.attempt("killed", lambda: _killed_round(racer))  # noqa: B023
    figures = medians(racers)
    found = {
        "ratio_dramatiq": None,  # the peers have no outbox
        "ratio_celery": None,
        "ratio_best_peer": None,
        "of_limit": ratio(figures, "bare-relay", "rate"),
    }
    return Report("outbox", "rows/s, ms", racers, figures, found, BARS)


def _round(racer: Racer) -> dict[str, float]:
    if racer.system.family == "limit":
        return {"rate": _bare_rate(racer)}
    with _relay(racer) as process:
        rate = _rate(racer, process)
        idle = _idle_ms(racer, process)
    return {"rate": rate, "idle_p50_ms": idle[len(idle) // 2], "idle_p99_ms": idle[int(len(idle) * 0.99)]}


@contextmanager
def _relay(racer: Racer) -> Iterator[Process]:
    """Run a relay that has sent one row already, and forget that row."""
    racer.ground.empty("smena.outbox")
    with worker(racer.system, racer.ground) as process:
        _write(racer.ground, range(1))
        _wait_sent(racer, process)
        _forget(racer)
        yield process


def _rate(racer: Racer, process: Process) -> float:
    committed_at = _write(racer.ground, range(racer.jobs))
    _wait_sent(racer, process)
    with racer.ground.database() as connection:
        seconds = float(_one(connection, _SPAN, committed_at))
    _prove(racer, racer.jobs)
    return racer.jobs / seconds


def _idle_ms(racer: Racer, process: Process) -> list[float]:
    """Commit one row at a time with pauses in which the relay falls asleep; return the sorted waits."""
    committed: dict[str, float] = {}
    with racer.ground.database() as connection:
        for job in range(_LONE):
            message = noop.message(job)
            outbox.add(connection, message)
            committed[message.id] = _one(connection, "SELECT clock_timestamp()").timestamp()
            connection.commit()
            time.sleep(random.uniform(0.03, 0.08))
        _wait_sent(racer, process)
        sent = connection.execute(_SENT_AT).fetchall()
    _prove(racer, _LONE)
    return sorted((float(at) - committed[job]) * 1000 for job, at in sent)


def _bare_rate(racer: Racer) -> float:
    """Let the bare loop send rows that lie there; time it from its first claim to its last commit."""
    racer.ground.empty("smena.outbox")
    racer.ground.purge(racer.system)
    _write(racer.ground, range(racer.jobs))
    with worker(racer.system, racer.ground) as process:
        wait_for(lambda: process.poll() is not None, "the bare relay is not done")
    with racer.ground.database() as connection:
        row = connection.execute(_BARE_SPAN).fetchone()
    span, batches = (float(value) for value in row or (0, 0))
    _prove(racer, racer.jobs)
    # The first batch's time is not between two marks; it is as long as the others.
    return racer.jobs * (batches - 1) / batches / span


def _killed_round(racer: Racer) -> int:
    """Kill the relay half way, start another; return how many rows were marked as sent at the kill."""
    jobs = max(_FEWEST, racer.jobs // 2)
    with _relay(racer) as process, racer.ground.database() as connection:
        connection.autocommit = True
        _write(racer.ground, range(jobs))
        wait_for(lambda: bool(_one(connection, _SENT) >= jobs // 2), "the relay has not sent half", process)
        kill(process)
        sent = int(_one(connection, _SENT))
    if sent == jobs:
        raise Stalled(f"the relay was done with all {jobs} rows before the kill came: give it more")
    with worker(racer.system, racer.ground) as process:
        _wait_sent(racer, process)
    _prove(racer, jobs)
    return sent


def _write(ground: Ground, jobs: range) -> datetime:
    """Commit a row for each job in one transaction; return the database's time just before the commit."""
    with ground.database() as connection:
        for first in range(0, len(jobs), _CHUNK):
            outbox.add(connection, *[noop.message(job) for job in jobs[first : first + _CHUNK]])
        at: datetime = _one(connection, "SELECT clock_timestamp()")
    return at


def _wait_sent(racer: Racer, process: Process) -> None:
    with racer.ground.database() as connection:
        connection.autocommit = True
        wait_for(lambda: connection.execute(_PENDING).fetchone() is None, "rows are not sent", process)


def _prove(racer: Racer, jobs: int) -> None:
    """Raise `Stalled` unless every id has reached the queue; empty table and queue."""
    there = set(racer.ground.take_all(racer.system))
    if there != set(range(jobs)):
        raise Stalled(f"{jobs - len(there)} of {jobs} messages are not in the queue")
    _forget(racer)


def _forget(racer: Racer) -> None:
    racer.ground.empty("smena.outbox")
    racer.ground.purge(racer.system)


def _one(connection: Any, query: str, *values: object) -> Any:
    return connection.execute(query, values).fetchone()[0]
