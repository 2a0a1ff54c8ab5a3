"""Celery 5.7: acks late, durable messages, no results, no events."""

from __future__ import annotations

import os

from celery import Celery

from benchmarks import proof

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
)


@app.task(name="noop")
def noop(job: int) -> None:
    """Take effect and nothing else."""
    proof.seen(job)


def fill(jobs: int) -> None:
    """Send that many jobs over one connection."""
    with app.producer_or_acquire() as producer:
        for job in range(jobs):
            noop.apply_async((job,), producer=producer)
