"""The limit: a bare pika consumer on a quorum queue that only decodes, notes the effect and acks in bulk.

Run it with ``python -m benchmarks.peers.bare_pika``.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pika

from benchmarks import proof
from benchmarks.peers import Send
from benchmarks.peers.pipeline import ARGUMENTS, Pipeline

QUEUE = "bench_pika"
ACK_EVERY = 100
FLUSH_S = 0.02


@contextmanager
def publisher() -> Iterator[Send]:
    """Send with many confirms outstanding."""
    pipeline = Pipeline(os.environ["SMENA_AMQP_URL"], QUEUE)
    yield lambda jobs: pipeline.publish([json.dumps({"job": job}).encode() for job in jobs])
    pipeline.close()


class Consumer:
    """Take, note, ack every hundredth and whatever is left when the queue is quiet."""

    def __init__(self) -> None:
        parameters = pika.URLParameters(os.environ["SMENA_AMQP_URL"])
        self._connection = pika.SelectConnection(parameters, on_open_callback=self._on_open)
        self._channel: Any = None
        self._unacked = 0
        self._last = 0
        signal.signal(signal.SIGTERM, lambda *_: self._connection.ioloop.add_callback_threadsafe(self._end))
        self._connection.add_on_close_callback(lambda *_: self._connection.ioloop.stop())

    def run(self) -> None:
        """Consume until TERM."""
        self._connection.ioloop.start()

    def _on_open(self, connection: Any) -> None:
        connection.channel(on_open_callback=self._on_channel)

    def _on_channel(self, channel: Any) -> None:
        self._channel = channel
        channel.basic_qos(prefetch_count=int(os.environ.get("BENCH_PREFETCH", "1000")))
        channel.queue_declare(QUEUE, durable=True, arguments=ARGUMENTS, callback=self._on_declared)

    def _on_declared(self, _frame: Any) -> None:
        self._channel.basic_consume(QUEUE, self._on_message)
        self._flush()

    def _on_message(self, _channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        proof.seen(json.loads(body)["job"])
        self._last = method.delivery_tag
        self._unacked += 1
        if self._unacked >= ACK_EVERY:
            self._ack()

    def _ack(self) -> None:
        self._channel.basic_ack(self._last, multiple=True)
        self._unacked = 0

    def _flush(self) -> None:
        if not self._channel.is_open:
            return
        if self._unacked:
            self._ack()
        self._connection.ioloop.call_later(FLUSH_S, self._flush)

    def _end(self) -> None:
        if self._channel is not None:
            self._flush()
        self._connection.close()


if __name__ == "__main__":
    Consumer().run()
