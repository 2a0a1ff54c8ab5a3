"""PgQueuer: one async no-op entrypoint, two worker processes, a row for each job.

Run it with ``python -m benchmarks.peers.pgqueuer_app work`` or ``… open N``.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from datetime import timedelta

import asyncpg
from pgqueuer import AsyncpgDriver, Job, PgQueuer, Queries

from benchmarks import proof
from benchmarks.peers import tell, two_processes

BATCH = int(os.environ.get("BENCH_PREFETCH", "100"))

CHUNK = 5_000
LEFT = "SELECT count(*) FROM pgqueuer"
DONE = "SELECT 0"
FORGET = "TRUNCATE pgqueuer, pgqueuer_log"


async def _connection() -> asyncpg.Connection:
    return await asyncpg.connect(os.environ["SMENA_DATABASE_URL"])


async def _work() -> None:
    queuer = PgQueuer(AsyncpgDriver(await _connection()))

    @queuer.entrypoint("noop")
    async def noop(job: Job) -> None:
        proof.sheet().marks[int(job.payload or b"0")] = 1

    await queuer.run(batch_size=BATCH, dequeue_timeout=timedelta(seconds=1))


async def _opened(count: int) -> None:
    queries = Queries(AsyncpgDriver(await _connection()))
    began_at = time.time()
    for first in range(0, count, CHUNK):
        numbers = range(first, min(first + CHUNK, count))
        await queries.enqueue(["noop"] * len(numbers), [b"%d" % number for number in numbers], [0] * len(numbers))
    tell(began_at=began_at)


async def _prepared() -> None:
    queries = Queries(AsyncpgDriver(await _connection()))
    if not await queries.has_table("pgqueuer"):  # each trial prepares
        await queries.install()
    tell(left=LEFT, done=DONE, forget=FORGET)


if __name__ == "__main__":
    match sys.argv[1]:
        case "open":
            asyncio.run(_opened(int(sys.argv[2])))
        case "prepare":
            asyncio.run(_prepared())
        case _:
            two_processes(lambda: asyncio.run(_work()))
