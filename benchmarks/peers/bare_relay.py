"""The limit of the relay: claim rows with psycopg, publish them with bare pika, mark them; one batch at a time.

Run it with ``python -m benchmarks.peers.bare_relay``; it ends when nothing is pending.
"""

from __future__ import annotations

import os

import psycopg

from benchmarks.peers.pipeline import Pipeline

QUEUE = "bench_relay"
BATCH = 500
"""Smena's own default."""

_CLAIM = """
SELECT seq, body FROM smena.outbox WHERE state = 'pending' ORDER BY due_at, seq LIMIT %s FOR UPDATE SKIP LOCKED
"""
_MARK = "UPDATE smena.outbox SET state = 'sent', sent_at = clock_timestamp() WHERE seq = ANY(%s)"


def run() -> None:
    """Send all that is pending."""
    pipeline = Pipeline(os.environ["SMENA_AMQP_URL"], QUEUE)
    with psycopg.connect(os.environ["SMENA_DATABASE_URL"]) as connection:
        while rows := connection.execute(_CLAIM, (BATCH,)).fetchall():
            pipeline.publish([body for _, body in rows])
            connection.execute(_MARK, ([seq for seq, _ in rows],))
            connection.commit()
    pipeline.close()


if __name__ == "__main__":
    run()
