"""FastStream on RabbitMQ: an async no-op handler on a durable queue, acked when it returns.

Run it with ``python -m benchmarks.peers.faststream_app``.
"""

from __future__ import annotations

import asyncio
import os

from faststream import FastStream
from faststream.rabbit import Channel, RabbitBroker, RabbitQueue

from benchmarks import proof

QUEUE = "bench_faststream"

broker = RabbitBroker(
    os.environ["SMENA_AMQP_URL"],
    default_channel=Channel(prefetch_count=int(os.environ.get("BENCH_PREFETCH", "100"))),
    logger=None,
)
app = FastStream(broker, logger=None)
_queue = RabbitQueue(QUEUE, durable=True)


@broker.subscriber(_queue)
async def noop(job: int) -> None:
    """Take effect and nothing else."""
    proof.seen(job)


async def _fill(jobs: int) -> None:
    await broker.connect()
    await broker.declare_queue(_queue)
    for start in range(0, jobs, 200):
        batch = range(start, min(start + 200, jobs))
        await asyncio.gather(*(broker.publish(job, QUEUE, persist=True) for job in batch))
    await broker.stop()


def fill(jobs: int) -> None:
    """Send that many jobs, many at a time."""
    asyncio.run(_fill(jobs))


if __name__ == "__main__":
    asyncio.run(app.run())
