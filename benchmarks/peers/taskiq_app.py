"""Taskiq with its RabbitMQ broker (aio-pika): an async no-op task, acked after it ran."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from taskiq_aio_pika import AioPikaBroker, Queue

from benchmarks import proof
from benchmarks.peers import Send

QUEUE = "bench_taskiq"
AT_ONCE = 200
"""Publishes under way at once."""

broker = AioPikaBroker(
    os.environ["SMENA_AMQP_URL"],
    qos=int(os.environ.get("BENCH_PREFETCH", "100")),
    task_queues=[Queue(name=QUEUE)],
)


@broker.task(task_name="noop")
async def noop(job: int) -> None:
    """Take effect and nothing else."""
    proof.seen(job)


async def _send(jobs: Sequence[int]) -> None:
    for first in range(0, len(jobs), AT_ONCE):
        await asyncio.gather(*(noop.kiq(job) for job in jobs[first : first + AT_ONCE]))


@contextmanager
def publisher() -> Iterator[Send]:
    """Send many at a time, each confirmed."""
    with asyncio.Runner() as runner:
        runner.run(broker.startup())
        yield lambda jobs: runner.run(_send(jobs))
        runner.run(broker.shutdown())
