"""Ask the broker questions whose answer may be that it closes the channel.

One question at a time, on a channel of its own that is opened again after each such answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from pika.channel import Channel

from smena.amqp.link import Connection

Question = Callable[[Channel, Callable[[Any], None]], object]
"""Send a method on the channel, with the callback for its reply."""

Answer = Callable[[BaseException | None], object]
"""Take None for a yes, or why the broker closed the channel or the connection was lost."""


class Asking:
    """Questions over one connection. All methods belong to the link thread."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._channel: Channel | None = None
        self._waiting: deque[tuple[Question, Answer]] = deque()
        self._busy = False
        connection.listen(self)

    def ask(self, question: Question, answer: Answer) -> None:
        """Put a question; it is asked when those before it are answered."""
        self._waiting.append((question, answer))
        self._go_on()

    def connection_up(self) -> None:
        """Begin with what was asked before."""
        self._go_on()

    def connection_down(self, reason: str) -> None:
        """Answer all that wait."""
        self._channel = None
        self._busy = False
        waiting, self._waiting = self._waiting, deque()
        for _, answer in waiting:
            answer(ConnectionError(reason))

    def connection_unblocked(self) -> None:
        """Do nothing: the broker answers what it has read by now."""

    def _go_on(self) -> None:
        if self._busy or not self._waiting or not self._connection.is_up:
            return
        self._busy = True
        if self._channel is None:
            self._connection.open_channel(self._opened)
        else:
            self._put(self._channel)

    def _opened(self, channel: Channel) -> None:
        self._channel = channel
        channel.add_on_close_callback(self._closed)
        self._put(channel)

    def _put(self, channel: Channel) -> None:
        question, _ = self._waiting[0]
        question(channel, lambda _frame: self._answered(None))

    def _closed(self, channel: Channel, reason: BaseException) -> None:
        if channel is self._channel and self._connection.is_up:
            self._channel = None
            if self._busy:
                self._answered(reason)

    def _answered(self, reason: BaseException | None) -> None:
        _, answer = self._waiting.popleft()
        self._busy = False
        answer(reason)
        self._go_on()
