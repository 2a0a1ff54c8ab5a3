"""Ask the broker itself what lies in a fleet's queues, over a connection of one's own.

Part of the judge, so it shares with the fleet only the names of queues: it believes no worker, and speaks to the broker
as any client does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError, ChannelClosedByBroker

from smena.amqp import names
from smena.errors import BrokerLost

_CANARY: Final = "canary"
"""Where the archivist's probes of the delay levels go; there is one in each level much of the time."""
_HELD_S: Final = 12.0
_LOOK_S: Final = 0.5


def nothing_held() -> int:
    """Stand in where only AMQP can be asked: it does not tell of what somebody holds."""
    return 0


class QueueView:
    """The depths of the queues with these logical names: passive declares, the same on every broker.

    These count what lies ready. What connections held lies ready again when they are gone; what the broker's own
    dead-letter workers hold does not: ``held`` counts it where the broker's own tools can be asked.
    """

    def __init__(self, url: str, prefix: str, queues: Sequence[str], held: Callable[[], int] = nothing_held) -> None:
        self._connection = _connected(url)
        self._channel: BlockingChannel | None = None
        self._prefix = prefix
        self._held = held
        self._work = [names.work_queue(prefix, queue) for queue in queues]
        # The partitions of a queue have one queue of dead letters together.
        ends = dict.fromkeys(names.dead_queue(prefix, queue) for queue in queues)
        self._ends = [*ends, names.lost_queue(prefix)]
        self._delays = [names.delay_exchange(prefix, level) for level in range(names.LEVELS)]

    def waiting(self) -> int:
        """Return the messages that lie ready in the work queues."""
        return self._ready(self._work)

    def unarchived(self) -> int:
        """Return the messages that lie ready where the archivist takes them: dead-letter queues and `lost`."""
        return self._ready(self._ends)

    def left(self) -> int:
        """Return all jobs in any queue, delayed ones too; only for a fleet that has stopped.

        The delay levels hold canaries as well, which are told by their routing key: so what lies there is
        taken out, looked at, and given back. What is still held is waited for, since a canary may be just on its way.
        """
        ends_at = time.monotonic() + _HELD_S
        while (held := self._held()) and time.monotonic() < ends_at:
            time.sleep(_LOOK_S)
        return held + self._ready([*self._work, *self._ends]) + sum(self._jobs_in(level) for level in self._delays)

    def delete_all(self) -> None:
        """Remove the fleet's queues and exchanges, for a broker that others use too."""
        for queue in (*self._work, *self._ends, *self._delays, names.canary_queue(self._prefix)):
            self._open().queue_delete(queue)
        for exchange in (*self._delays, names.due_exchange(self._prefix), names.lost_queue(self._prefix)):
            self._open().exchange_delete(exchange)

    def purge(self) -> None:
        """Remove all messages of jobs, also delayed ones."""
        for queue in (*self._work, *self._ends, *self._delays):
            if self._depth(queue):
                self._open().queue_purge(queue)

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

    def _jobs_in(self, level: str) -> int:
        routing_keys = []
        for _ in range(self._depth(level)):
            got, _, _ = self._open().basic_get(level)
            if got is not None:
                routing_keys.append(str(got.routing_key))
        self._open().basic_nack(multiple=True)
        return sum(names.delayed_target(key) != _CANARY for key in routing_keys)

    def _open(self) -> BlockingChannel:
        if self._channel is None or not self._channel.is_open:
            self._channel = self._connection.channel()
        return self._channel


def _connected(url: str) -> pika.BlockingConnection:
    where = pika.URLParameters(url)
    try:
        return pika.BlockingConnection(where)
    except (AMQPError, OSError) as error:
        raise BrokerLost(f"{where.host}:{where.port}: {str(error) or type(error).__name__}") from error
