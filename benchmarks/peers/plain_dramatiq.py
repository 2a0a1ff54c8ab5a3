"""Plain Dramatiq with its own RabbitMQ broker and its default middleware.

`BENCH_QUEUE_TYPE=quorum` puts it on the queue type that Smena uses, for like-with-like figures;
`BENCH_CONFIRM` makes it wait for the broker's confirm of each message.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

from benchmarks import proof
from benchmarks.peers import Send

IS_QUORUM = os.environ.get("BENCH_QUEUE_TYPE") == "quorum"


class QuorumBroker(RabbitmqBroker):
    """Dramatiq's broker on quorum queues."""

    def _build_queue_arguments(self, queue_name: str) -> dict[str, Any]:
        arguments: dict[str, Any] = super()._build_queue_arguments(queue_name)  # type: ignore[no-untyped-call]
        return {**arguments, "x-queue-type": "quorum"}


def make_broker() -> RabbitmqBroker:
    """Connect as the environment says."""
    kind = QuorumBroker if IS_QUORUM else RabbitmqBroker
    return kind(url=os.environ["SMENA_AMQP_URL"], confirm_delivery=bool(os.environ.get("BENCH_CONFIRM")))


broker = make_broker()
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name="bench_dramatiq_quorum" if IS_QUORUM else "bench_dramatiq", max_retries=3)
def noop(job: int) -> None:
    """Take effect and nothing else."""
    proof.seen(job)


@contextmanager
def publisher() -> Iterator[Send]:
    """Send one after the other, which is the only way that Dramatiq has."""

    def send(jobs: Sequence[int]) -> None:
        for job in jobs:
            noop.send(job)

    yield send
    broker.close()
