"""The limit: a bare pika consumer on a quorum queue that only decodes, notes the effect and acks in bulk.

Run it with ``python -m benchmarks.peers.bare_pika``.
"""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pika

from benchmarks import proof

QUEUE = "bench_pika"
ARGUMENTS = {"x-queue-type": "quorum"}
ACK_EVERY = 100


def fill(jobs: int) -> None:
    """Send that many jobs, unconfirmed."""
    connection = pika.BlockingConnection(pika.URLParameters(os.environ["SMENA_AMQP_URL"]))
    channel = connection.channel()
    channel.queue_declare(QUEUE, durable=True, arguments=ARGUMENTS)
    properties = pika.BasicProperties(delivery_mode=2, content_type="application/json")
    for job in range(jobs):
        channel.basic_publish("", QUEUE, json.dumps({"job": job}).encode(), properties)
    connection.close()


class Consumer:
    """Take, note, ack every hundredth and whatever is left when the queue is quiet."""

    def __init__(self) -> None:
        parameters = pika.URLParameters(os.environ["SMENA_AMQP_URL"])
        self._connection = pika.SelectConnection(parameters, on_open_callback=self._on_open)
        self._channel: Any = None
        self._unacked = 0
        self._last = 0
        signal.signal(
            signal.SIGTERM, lambda *_: self._connection.ioloop.add_callback_threadsafe(self._connection.close)
        )
        self._connection.add_on_close_callback(lambda *_: self._connection.ioloop.stop())

    def run(self) -> None:
        """Consume until TERM."""
        self._connection.ioloop.start()

    def _on_open(self, connection: Any) -> None:
        connection.channel(on_open_callback=self._on_channel)

    def _on_channel(self, channel: Any) -> None:
        self._channel = channel
        channel.basic_qos(prefetch_count=int(os.environ.get("BENCH_PREFETCH", "1000")))
        channel.basic_consume(QUEUE, self._on_message)
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
        if self._unacked:
            self._ack()
        self._connection.ioloop.call_later(0.02, self._flush)


if __name__ == "__main__":
    Consumer().run()
