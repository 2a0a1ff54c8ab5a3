"""Celery 5.7: acks late, durable messages, no results, no events."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from celery import Celery

from benchmarks import proof
from benchmarks.peers import Send

QUEUE = "bench_celery"

app = Celery("bench", broker=os.environ["SMENA_AMQP_URL"])
app.conf.update(
    task_acks_late=True,
    task_ignore_result=True,
    task_default_queue=QUEUE,
    worker_prefetch_multiplier=int(os.environ.get("BENCH_PREFETCH", "4")),
    worker_enable_remote_control=False,
    worker_send_task_events=False,
    broker_connection_retry_on_startup=True,
    broker_transport_options={"confirm_publish": bool(os.environ.get("BENCH_CONFIRM"))},
)


@app.task(name="noop")  # type: ignore[untyped-decorator]
def noop(job: int) -> None:
    """Take effect and nothing else."""
    proof.seen(job)


@contextmanager
def publisher() -> Iterator[Send]:
    """Send one after the other over one connection."""
    with app.producer_or_acquire() as producer:

        def send(jobs: Sequence[int]) -> None:
            for job in jobs:
                noop.apply_async((job,), producer=producer)

        yield send
