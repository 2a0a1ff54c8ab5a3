"""Plain Dramatiq 2.2.1 with its own RabbitMQ broker and its default middleware but Prometheus."""

from __future__ import annotations

import os
from typing import Any

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

from benchmarks import proof

QUEUE = "bench_dramatiq"


class QuorumBroker(RabbitmqBroker):
    """Dramatiq's broker on the queue type that Smena uses; for like-with-like figures."""

    def _build_queue_arguments(self, queue_name: str) -> dict[str, Any]:
        return {**super()._build_queue_arguments(queue_name), "x-queue-type": "quorum"}


def make_broker(*, confirm: bool = False) -> RabbitmqBroker:
    """Connect as the environment says: `SMENA_AMQP_URL`, `BENCH_QUEUE_TYPE`."""
    kind = QuorumBroker if os.environ.get("BENCH_QUEUE_TYPE") == "quorum" else RabbitmqBroker
    return kind(url=os.environ["SMENA_AMQP_URL"], confirm_delivery=confirm)


broker = make_broker(confirm=bool(os.environ.get("BENCH_CONFIRM")))
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name=QUEUE, max_retries=3)
def noop(job: int) -> None:
    """Take effect and nothing else."""
    proof.seen(job)


def fill(jobs: int) -> None:
    """Send that many jobs."""
    for job in range(jobs):
        noop.send(job)
