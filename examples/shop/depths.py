"""Ask the broker how many messages wait in each of the fleet's queues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from smena.amqp import names

QUEUES: Final = ("sales", "payments", "mail")


class Depths:
    """Passive declares over one connection: read-only, and the same on every broker."""

    def __init__(self, url: str, prefix: str) -> None:
        self._connection = pika.BlockingConnection(pika.URLParameters(url))
        self._channel: BlockingChannel | None = None
        self._work = [names.work_queue(prefix, queue) for queue in QUEUES]
        self._other = [names.dead_queue(prefix, queue) for queue in QUEUES]
        self._other += [names.delay_exchange(prefix, level) for level in range(names.LEVELS)]
        self._other.append(names.lost_queue(prefix))

    def waiting(self) -> int:
        """Return the messages that lie ready in the work queues."""
        return self._ready(self._work)

    def everywhere(self) -> int:
        """Return the messages that lie ready in work queues, delay levels, dead-letter queues and `lost`."""
        return self._ready([*self._work, *self._other])

    def delete_queues(self) -> None:
        """Remove the fleet's queues, for a broker that is not the demo's own."""
        for queue in (*self._work, *self._other):
            self._open().queue_delete(queue)

    def close(self) -> None:
        """Close the connection."""
        if self._connection.is_open:
            self._connection.close()

    def _ready(self, queues: Sequence[str]) -> int:
        return sum(self._depth(queue) for queue in queues)

    def _depth(self, queue: str) -> int:
        try:
            return int(self._open().queue_declare(queue, passive=True).method.message_count)
        except ChannelClosedByBroker as closed:
            if closed.reply_code != 404:
                raise
            return 0  # not declared yet, so nothing waits there

    def _open(self) -> BlockingChannel:
        if self._channel is None or not self._channel.is_open:
            self._channel = self._connection.channel()
        return self._channel
