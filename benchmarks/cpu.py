"""Measure CPU steps: what a call of the pool costs beside bare pebble, and how much of the cores CPU jobs use.

A call is one step that does nothing, one after the other, by one thread and by one coroutine; pebble is called in
turns with it, with one process of its own kind (forkserver, step preloaded). The lag is how late an event loop wakes
whose coroutines keep all pool processes computing. CPU jobs take 50 ms of processor time
each; the share of the cores is what they took of what there was from the first end to the last. On a machine with
other work a share is low for all systems: then they are compared.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from statistics import median, quantiles
from time import perf_counter
from typing import Any, Final

from benchmarks import drain
from benchmarks.drain import Racer
from benchmarks.entrant import entrants
from benchmarks.ground import Ground
from benchmarks.peers.pool_steps import BURN_S, burn, nothing
from benchmarks.report import Bar, Report, medians, ratios
from benchmarks.systems import CELERY_PREFORK, DRAMATIQ, PYTHON, SMENA, System
from smena.clock import SYSTEM, Deadline
from smena.settings.groups import Pool as Bounds
from workers.execution.pool import Pool
from workers.process.orders import Orders
from workers.wiring.pool import launch

CORES: Final = len(os.sched_getaffinity(0))
BARS: Final = (Bar("call_of_pebble", 1.2, at_most=True), Bar("lag_p99_ms", 50, at_most=True), Bar("cores", 0.9))
_PREFORK: Final = ("-l", "error", "-c", str(CORES), "-P", "prefork")
SYSTEMS: Final[Sequence[System]] = (
    replace(
        SMENA,
        module="benchmarks.peers.smena_cpu",
        queue="smena.bench_cpu",
        environment={"SMENA_BOOKS": "benchmarks.peers.smena_cpu"},
    ),
    replace(
        CELERY_PREFORK,
        module="benchmarks.peers.celery_cpu",
        command=(PYTHON, "-m", "celery", "-A", "benchmarks.peers.celery_cpu:app", "worker", *_PREFORK),
        prefetches=(),
    ),
    replace(
        DRAMATIQ,
        module="benchmarks.peers.dramatiq_cpu",
        queue="bench_dramatiq_cpu",
        command=(PYTHON, "-m", "dramatiq", "-p", str(CORES), "-t", "1", "benchmarks.peers.dramatiq_cpu"),
        prefetches=(),
    ),
)

_CALLS: Final = 500
_TURNS: Final = 9
_WAKES: Final = 500
_WAKE_S: Final = 0.01


def measure(systems: Sequence[System], ground: Ground, jobs: int, rounds: int) -> Report:
    """Measure calls, then run all systems in turn, round after round."""
    call_us = calls_us()
    print(f"{'calls':<16}{call_us}", file=sys.stderr, flush=True)
    racers: list[Racer] = entrants(systems, ground, jobs)
    for number in range(rounds):
        for racer in racers:
            racer.play_round(number, lambda: _round(racer))  # noqa: B023 (called at once)
    figures = medians(racers)
    found = ratios(racers, figures, "rate", max)
    found["call_of_pebble"] = call_us["smena"] / call_us["pebble"]
    found["async_call_of_pebble"] = call_us["smena_async"] / call_us["pebble"]
    found["lag_p99_ms"] = lag_p99_ms()
    return Report("cpu", "jobs/s", racers, figures, found, BARS, {"cores": CORES, "call_us": call_us})


def _round(racer: Racer) -> dict[str, float]:
    rate = drain.proven_round(racer)["rate"]
    return {"rate": rate, "cores": rate * BURN_S / CORES}


def calls_us() -> dict[str, float]:
    """Return the median of each way of calling a step, in microseconds a call; all take turns."""
    from pebble import ProcessPool

    smena = _pool(1)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([nothing.__module__])
    ways: dict[str, list[float]] = {"smena": [], "smena_async": [], "pebble": []}
    with ProcessPool(max_workers=1, context=context) as pebble:
        for turn in range(_TURNS + 1):
            taken = {"smena": _smena(smena), "smena_async": asyncio.run(_smena_async(smena)), "pebble": _pebble(pebble)}
            for way, seconds in taken.items():
                ways[way] += [seconds / _CALLS * 1e6] if turn else []  # the first turn starts the processes
    smena.stop(Deadline.within(10, SYSTEM))
    return {way: round(median(turns), 1) for way, turns in ways.items()}


def lag_p99_ms() -> float:
    """Return how late an event loop wakes, in 99 of 100 times at most, while its pool keeps all cores busy."""
    pool = _pool(CORES)
    try:
        lags = asyncio.run(_lags_s(pool))
    finally:
        pool.stop(Deadline.within(10, SYSTEM))
    return round(quantiles(lags, n=100)[-1] * 1000, 2)


async def _lags_s(pool: Pool) -> list[float]:
    await asyncio.gather(*(pool.arun(burn, (BURN_S,), 60.0) for _ in range(2 * CORES)))  # all processes are up
    over = False

    async def compute() -> None:
        while not over:
            await pool.arun(burn, (BURN_S,), 60.0)

    busy = [asyncio.create_task(compute()) for _ in range(2 * CORES)]
    lags = []
    for _ in range(_WAKES):
        due = perf_counter() + _WAKE_S
        await asyncio.sleep(_WAKE_S)
        lags.append(perf_counter() - due)
    over = True
    await asyncio.gather(*busy)
    return lags


def _pool(processes: int) -> Pool:
    orders = Orders(role="worker", module="", post=0, supervisor_pid=os.getpid(), state_dir="")
    return Pool(Bounds(processes=processes), lambda: launch(orders), lambda _is_broken: None)


def _smena(pool: Pool) -> float:
    began = perf_counter()
    for number in range(_CALLS):
        pool.run(nothing, (number,), 60.0)
    return perf_counter() - began


async def _smena_async(pool: Pool) -> float:
    began = perf_counter()
    for number in range(_CALLS):
        await pool.arun(nothing, (number,), 60.0)
    return perf_counter() - began


def _pebble(pool: Any) -> float:
    began = perf_counter()
    for number in range(_CALLS):
        pool.schedule(nothing, args=(number,), timeout=60.0).result()
    return perf_counter() - began
