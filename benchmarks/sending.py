"""Send jobs by one system's own publisher, in one of four ways, and print what it took as JSON.

Run it with ``python -m benchmarks.sending MODULE MODE JOBS [RATE]``. The proof's file gets the time at
which each job was sent; in mode ``bulk`` that at which it was known to be safe.
"""

from __future__ import annotations

import json
import random
import sys
from importlib import import_module
from time import monotonic, sleep
from typing import Any

from benchmarks.peers import Send
from benchmarks.proof import Sheet, sheet

WARM_UP = 50
"""Jobs sent before the clock runs: connections, declarations, caches. They count as jobs."""

_LARGEST_BATCH = 5000
_PATIENCE_S = 30.0
_TICK_S = 0.005


def bulk(send: Send, jobs: int, noted: Sheet) -> dict[str, float]:
    """Send as fast as it goes, in batches."""
    step = max(1, min(_LARGEST_BATCH, jobs // 10))
    send(range(WARM_UP))
    start = monotonic()
    for first in range(WARM_UP, jobs, step):
        batch = range(first, min(first + step, jobs))
        send(batch)
        now = monotonic()
        for job in batch:
            noted.sent[job] = now
    return {"rate": (jobs - WARM_UP) / (monotonic() - start)}


def single(send: Send, jobs: int, noted: Sheet) -> dict[str, float]:
    """Send one after another, each safe before the next."""
    took: list[float] = []
    for job in range(jobs):
        start = monotonic()
        send((job,))
        noted.sent[job] = end = monotonic()
        took.append(end - start)
    measured = sorted(took[WARM_UP:])
    return {"p50_ms": measured[len(measured) // 2] * 1000}


def idle(send: Send, jobs: int, noted: Sheet) -> dict[str, float]:
    """Send one at a time to a worker that has nothing else to do, with pauses of 2 to 12 ms."""
    for job in range(jobs):
        noted.sent[job] = monotonic()
        send((job,))
        noted.wait_seen(job, _PATIENCE_S)
        sleep(random.uniform(0.002, 0.012))  # a fixed pause would meet timers always in the same phase
    return {}


def paced(send: Send, jobs: int, noted: Sheet, rate: float) -> dict[str, float]:
    """Send at a rate, in small batches every few milliseconds, once the worker is there."""
    send(range(WARM_UP))
    for job in range(WARM_UP):
        noted.wait_seen(job, _PATIENCE_S)
    start, sent = monotonic(), WARM_UP
    while sent < jobs:
        due = min(jobs, WARM_UP + int((monotonic() - start) * rate) + 1)
        if due > sent:
            now = monotonic()
            for job in range(sent, due):
                noted.sent[job] = now
            send(range(sent, due))
            sent = due
        sleep(_TICK_S)
    return {"rate": (jobs - WARM_UP) / (monotonic() - start)}


MODES: dict[str, Any] = {mode.__name__: mode for mode in (bulk, single, idle, paced)}


def main(module: str, mode: str, jobs: str, *more: str) -> None:
    """Send and print."""
    with import_module(module).publisher() as send:
        measured = MODES[mode](send, int(float(jobs)), sheet(), *map(float, more))
    print(json.dumps(measured))


if __name__ == "__main__":
    main(*sys.argv[1:])
