"""Publish with bare pika and many confirms outstanding; all in the caller's thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pika

ARGUMENTS = {"x-queue-type": "quorum"}
WINDOW = 2000
"""Messages sent and not yet confirmed; Smena's own default."""


class Pipeline:
    """One connection in confirm mode to one quorum queue."""

    def __init__(self, url: str, queue: str) -> None:
        self._queue = queue
        self._channel: Any = None
        self._bodies: Iterator[bytes] = iter(())
        self._next_tag = 1
        self._unconfirmed: dict[int, None] = {}
        self._properties = pika.BasicProperties(delivery_mode=2, content_type="application/json")
        self._connection = pika.SelectConnection(
            pika.URLParameters(url), on_open_callback=self._on_open, on_open_error_callback=self._on_end
        )
        self._connection.add_on_close_callback(self._on_end)
        self._run()

    def publish(self, bodies: Sequence[bytes]) -> None:
        """Publish all; return when each is confirmed."""
        self._bodies = iter(bodies)
        self._top_up()
        self._run()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
        self._connection.ioloop.start()

    def _run(self) -> None:
        """Serve the connection until a callback stops the loop."""
        self._connection.ioloop.start()
        if not self._connection.is_open:
            raise ConnectionError("the broker is gone")

    def _on_open(self, connection: Any) -> None:
        connection.channel(on_open_callback=self._on_channel)

    def _on_channel(self, channel: Any) -> None:
        self._channel = channel
        channel.confirm_delivery(self._on_confirm)
        channel.queue_declare(self._queue, durable=True, arguments=ARGUMENTS, callback=lambda _ok: self._stop())

    def _top_up(self) -> None:
        while len(self._unconfirmed) < WINDOW and (body := next(self._bodies, None)) is not None:
            self._channel.basic_publish("", self._queue, body, self._properties)
            self._unconfirmed[self._next_tag] = None
            self._next_tag += 1

    def _on_confirm(self, frame: Any) -> None:
        tag = frame.method.delivery_tag
        if frame.method.multiple:
            while self._unconfirmed and (first := next(iter(self._unconfirmed))) <= tag:
                del self._unconfirmed[first]
        else:
            self._unconfirmed.pop(tag, None)
        self._top_up()
        if not self._unconfirmed:
            self._stop()

    def _on_end(self, *_: Any) -> None:
        self._stop()

    def _stop(self) -> None:
        self._connection.ioloop.stop()
