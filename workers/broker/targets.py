"""Make sure that a queue is there and that delays to it find it."""

from __future__ import annotations

import threading

from smena.amqp.link import Connection
from smena.amqp.names import parts
from smena.amqp.topology import Declarer
from smena.errors import BrokerLost, SmenaError


class Targets:
    """Declare targets of delays over one connection; from any thread but the link's."""

    def __init__(self, connection: Connection, prefix: str) -> None:
        self._post = connection.thread.post
        self._declarer = Declarer(connection, prefix)

    def declare(self, queue: str, timeout_s: float) -> None:
        """Declare the work queue and its binding, once per connection; raise why it cannot be.

        A partition has no binding: its jobs are never delayed.
        """
        answered = threading.Event()
        answers: list[SmenaError | None] = []

        def done(error: SmenaError | None) -> None:
            answers.append(error)
            answered.set()

        self._post(lambda: self._declarer.queue(queue, done, delayed=parts(queue)[1] is None))
        if not answered.wait(timeout_s):
            raise BrokerLost("no answer to a declaration", queue=queue)
        if answers[0] is not None:
            raise answers[0]
