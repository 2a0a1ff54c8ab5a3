"""Taskiq with its RabbitMQ broker (aio-pika): an async no-op task, acked after it ran."""

from __future__ import annotations

import asyncio
import os

from taskiq_aio_pika import AioPikaBroker, Queue

from benchmarks import proof

QUEUE = "bench_taskiq"

broker = AioPikaBroker(
    os.environ["SMENA_AMQP_URL"],
    qos=int(os.environ.get("BENCH_PREFETCH", "100")),
    task_queues=[Queue(name=QUEUE)],
)


@broker.task(task_name="noop")
async def noop(job: int) -> None:
    """Take effect and nothing else."""
    proof.seen(job)


async def _fill(jobs: int) -> None:
    await broker.startup()
    for start in range(0, jobs, 200):
        await asyncio.gather(*(noop.kiq(job) for job in range(start, min(start + 200, jobs))))
    await broker.shutdown()


def fill(jobs: int) -> None:
    """Send that many jobs, many at a time."""
    asyncio.run(_fill(jobs))
