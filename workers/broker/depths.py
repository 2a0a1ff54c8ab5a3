"""Ask the broker how many messages are ready in queues, without touching them (passive declare).

A channel of its own: asking for a queue that does not exist closes the channel (404), and the next one
goes on where that left off.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from pika.channel import Channel

from smena.amqp.link import Connection, LinkThread
from smena.clock import SYSTEM, Clock, Deadline
from smena.errors import BrokerLost
from smena.settings.groups import Amqp

_CLOSE_S: Final = 2.0


class _Question:
    """Queues that are asked for, one after the other."""

    def __init__(self, queues: Sequence[str]) -> None:
        self.left = deque(queues)
        self.depths: dict[str, int] = {}
        self.error: str | None = None
        self.answered = threading.Event()


class Depths:
    """Depths of queues over one connection; ask from any thread but the link's."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._channel: Channel | None = None
        self._opening = False
        self._questions: deque[_Question] = deque()
        connection.listen(self)

    def of(self, queues: Sequence[str], timeout_s: float) -> dict[str, int]:
        """Return the number of ready messages of each queue that exists; raise `BrokerLost` when none answers."""
        question = _Question(queues)
        self._connection.thread.post(lambda: self._put(question))
        if not question.answered.wait(timeout_s):
            raise BrokerLost("no answer about the depth of queues", after_s=timeout_s)
        if question.error is not None:
            raise BrokerLost(question.error)
        return question.depths

    # --- on the link thread -------------------------------------------------------------------

    def connection_up(self) -> None:
        """Begin with what was asked before."""
        self._go_on()

    def connection_unblocked(self) -> None:
        """Do nothing: a blocked connection hears no questions, and they have their own time limit."""

    def connection_down(self, reason: str) -> None:
        """Tell those who wait."""
        self._channel = None
        self._opening = False
        questions, self._questions = self._questions, deque()
        for question in questions:
            question.error = reason
            question.answered.set()

    def _put(self, question: _Question) -> None:
        self._questions.append(question)
        if len(self._questions) == 1:
            self._go_on()

    def _go_on(self) -> None:
        while self._questions and not self._questions[0].left:
            self._questions.popleft().answered.set()
        if not self._questions or not self._connection.is_up:
            return
        if self._channel is not None:
            queue = self._questions[0].left[0]
            self._channel.queue_declare(queue, passive=True, callback=lambda frame: self._answer(queue, frame))
        elif not self._opening:
            self._opening = True
            self._connection.open_channel(self._opened)

    def _opened(self, channel: Channel) -> None:
        self._opening = False
        self._channel = channel
        channel.add_on_close_callback(self._closed)
        self._go_on()

    def _answer(self, queue: str, frame: Any) -> None:
        if self._questions and self._questions[0].left and self._questions[0].left[0] == queue:
            self._questions[0].depths[queue] = frame.method.message_count
            self._questions[0].left.popleft()
        self._go_on()

    def _closed(self, channel: Channel, _reason: BaseException) -> None:
        if channel is not self._channel:
            return
        self._channel = None
        if self._questions and self._questions[0].left:
            self._questions[0].left.popleft()  # there is no such queue
        self._go_on()


def depths_once(settings: Amqp, queues: Sequence[str], clock: Clock = SYSTEM) -> dict[str, int]:
    """Return the depths over a connection that is made for this one question."""
    with _connection(settings, clock) as connection:
        return Depths(connection).of(queues, settings.connect_timeout_s)


@contextmanager
def _connection(settings: Amqp, clock: Clock) -> Iterator[Connection]:
    thread = LinkThread("smena-depths", clock)
    connection = Connection(thread, settings, "depths")
    thread.start()
    connection.start()
    try:
        if not connection.wait_up(settings.connect_timeout_s * len(settings.urls)):
            raise BrokerLost(str(connection.last_error or "no answer"))
        yield connection
    finally:
        deadline = Deadline.within(_CLOSE_S, clock)
        connection.stop(deadline)
        thread.stop(deadline)
