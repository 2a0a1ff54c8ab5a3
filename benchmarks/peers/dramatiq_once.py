"""Plain Dramatiq with the check that a careful author writes by hand: a unique key in the effect's transaction."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import dramatiq
import psycopg

from benchmarks import proof
from benchmarks.peers import Send
from benchmarks.peers.bare_psycopg import INSERT_EFFECT, INSERT_KEY
from benchmarks.peers.plain_dramatiq import make_broker

broker = make_broker()
dramatiq.set_broker(broker)
_own = threading.local()


@dramatiq.actor(queue_name="bench_dramatiq_once", max_retries=3)
def record(job: int) -> None:
    """Write key and row in one transaction; do nothing if the key is there."""
    proof.seen(job)
    connection = _connection()
    with connection.transaction():
        if connection.execute(INSERT_KEY, (str(job), str(job))).rowcount == 1:
            connection.execute(INSERT_EFFECT, (job,))


def _connection() -> psycopg.Connection[Any]:
    """Return this thread's own connection."""
    if not hasattr(_own, "connection"):
        _own.connection = psycopg.connect(os.environ["SMENA_DATABASE_URL"], autocommit=True)
    connection: psycopg.Connection[Any] = _own.connection
    return connection


@contextmanager
def publisher() -> Iterator[Send]:
    """Send one after the other."""

    def send(jobs: Sequence[int]) -> None:
        for job in jobs:
            record.send(job)

    yield send
    broker.close()
