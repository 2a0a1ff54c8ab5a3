"""Procrastinate: one async no-op task, two worker processes, a row for each job.

Run it with ``python -m benchmarks.peers.procrastinate_app work`` or ``… open N``.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from typing import Any

import procrastinate

from benchmarks import proof
from benchmarks.peers import tell, two_processes

CONCURRENCY = int(os.environ.get("BENCH_PREFETCH", "16"))

CHUNK = 10_000
LEFT = "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
DONE = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"
FORGET = "TRUNCATE procrastinate_jobs CASCADE"

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=os.environ.get("SMENA_DATABASE_URL", "")))


@app.task(name="noop")  # type: ignore[untyped-decorator,unused-ignore]  # untyped where the peer is not installed
async def noop(number: int) -> None:
    """Take effect and nothing else."""
    proof.sheet().marks[number] = 1


async def _work() -> None:
    async with app.open_async():
        await app.run_worker_async(concurrency=CONCURRENCY, listen_notify=True, install_signal_handlers=False)


async def _opened(count: int) -> None:
    async with app.open_async():
        began_at = time.time()
        for first in range(0, count, CHUNK):
            numbers = range(first, min(first + CHUNK, count))
            jobs: list[Any] = [{"number": number} for number in numbers]
            await noop.batch_defer_async(*jobs)
        tell(began_at=began_at)


async def _prepared() -> None:
    async with app.open_async():
        if not await app.check_connection_async():
            await app.schema_manager.apply_schema_async()
    tell(left=LEFT, done=DONE, forget=FORGET)


if __name__ == "__main__":
    logging.disable(logging.INFO)
    match sys.argv[1]:
        case "open":
            asyncio.run(_opened(int(sys.argv[2])))
        case "prepare":
            asyncio.run(_prepared())
        case _:
            two_processes(lambda: asyncio.run(_work()))
