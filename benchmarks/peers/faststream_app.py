"""FastStream on RabbitMQ: an async no-op handler on a durable queue, acked when it returns.

Run it with ``python -m benchmarks.peers.faststream_app``.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from faststream import FastStream
from faststream.rabbit import Channel, RabbitBroker, RabbitQueue

from benchmarks import proof
from benchmarks.peers import Send

QUEUE = "bench_faststream"
AT_ONCE = 200
"""Publishes under way at once."""

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


async def _open() -> None:
    await broker.connect()
    await broker.declare_queue(_queue)


async def _send(jobs: Sequence[int]) -> None:
    for first in range(0, len(jobs), AT_ONCE):
        await asyncio.gather(*(broker.publish(job, QUEUE, persist=True) for job in jobs[first : first + AT_ONCE]))


@contextmanager
def publisher() -> Iterator[Send]:
    """Send many at a time, each confirmed."""
    with asyncio.Runner() as runner:
        runner.run(_open())
        yield lambda jobs: runner.run(_send(jobs))
        runner.run(broker.stop())


if __name__ == "__main__":
    asyncio.run(app.run())
