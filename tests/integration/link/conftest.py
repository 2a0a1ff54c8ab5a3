"""Give a fleet's name of its own, a link, and a second pair of eyes on the broker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pika
import pytest
from pydantic import SecretStr

from smena.amqp import names
from smena.amqp.link import Connection, LinkThread
from smena.amqp.publisher import Publisher
from smena.clock import SYSTEM, Deadline
from smena.settings.groups import Amqp
from tests.fixtures.eventually import PATIENCE_S
from workers.broker.consumer import Consumer


class Broker:
    """Look at the broker with pika alone; each question on a fresh channel, but for depths, which are asked often."""

    def __init__(self, url: str) -> None:
        self._parameters = pika.URLParameters(url)
        self._connection: Any = None
        self._asking: Any = None
        self._doomed: list[str] = []

    def close(self) -> None:
        """Delete what tests named, and leave."""
        for queue in self._doomed:
            self.channel().queue_delete(queue)
        self.leave()

    def leave(self) -> None:
        """Close the connection, as before a test kills the broker; the next question opens one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = self._asking = None

    def channel(self) -> Any:
        """Return a fresh channel: the broker closes one that asked a wrong question."""
        if self._connection is None:
            self._connection = pika.BlockingConnection(self._parameters)
        return self._connection.channel()

    def doom(self, *queues: str) -> None:
        """Delete these queues at the end."""
        self._doomed += queues

    def depth(self, queue: str) -> int:
        """Return how many messages are ready."""
        if self._asking is None or self._asking.is_closed:
            self._asking = self.channel()
        return int(self._asking.queue_declare(queue, passive=True).method.message_count)

    def take(self, queue: str) -> tuple[Any, Any, bytes] | None:
        """Take one message off a queue."""
        method, properties, body = self.channel().basic_get(queue, auto_ack=True)
        return None if method is None else (method, properties, body)

    def publish(self, queue: str, body: bytes, properties: pika.BasicProperties | None = None) -> None:
        """Publish past the product, confirmed."""
        channel = self.channel()
        channel.confirm_delivery()
        channel.basic_publish("", queue, body, properties, mandatory=True)


@pytest.fixture
def broker(amqp_url: str) -> Iterator[Broker]:
    broker = Broker(amqp_url)
    yield broker
    broker.close()


@pytest.fixture
def queue(unique: str, broker: Broker) -> str:
    """Give the logical name of a queue that nobody else uses; it is deleted at the end."""
    broker.doom(names.work_queue("test", unique), names.dead_queue("test", unique))
    return unique


Settle = Callable[..., Amqp]


@pytest.fixture
def settings(amqp_url: str) -> Settle:
    """Give a function that makes settings; the delay levels of the prefix `test` are shared by all tests."""

    def make(**changes: Any) -> Amqp:
        return Amqp(**{"urls": (SecretStr(amqp_url),), "prefix": "test", "publish_timeout_s": 20, **changes})

    return make


class Link:
    """Make connections and publishers on one link thread, and stop all in the end."""

    def __init__(self) -> None:
        self.thread = LinkThread("link-test")
        self.thread.start()
        self._ends = ExitStack()
        self._ends.callback(self._stop, self.thread)

    def connection(self, settings: Amqp, name: str = "test") -> Connection:
        """Return a started connection."""
        connection = Connection(self.thread, settings, name)
        connection.start()
        self._ends.callback(self._stop, connection)
        return connection

    def publisher(self, settings: Amqp, connection: Connection | None = None) -> Publisher:
        """Return a started publisher, on a connection of its own unless one is given."""
        publisher = Publisher(connection or self.connection(settings, "publish"), settings, SYSTEM)
        publisher.start()
        return publisher

    def stop(self) -> None:
        """Stop everything, the last first."""
        self._ends.close()

    @staticmethod
    def _stop(service: Connection | LinkThread) -> None:
        assert service.stop(Deadline.within(10, SYSTEM)), f"{service.name} did not stop"


def await_answer(consumer: Consumer) -> None:
    """Wait until the broker has done what was said on the consumer's channel: it answers in order.

    A broker that is slow is left before it has read the last acks, and hands their messages out again.
    """
    answered = threading.Event()

    def ask() -> None:
        assert consumer._channel is not None
        consumer._channel.basic_qos(prefetch_count=1, callback=lambda _frame: answered.set())

    consumer.flush(ask)
    assert answered.wait(PATIENCE_S)


@pytest.fixture
def link() -> Iterator[Link]:
    link = Link()
    yield link
    link.stop()
