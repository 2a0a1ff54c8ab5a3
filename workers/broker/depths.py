"""Ask the broker how queues stand, ready messages and consumers, without touching them (passive declare)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from pika.channel import Channel

from smena.amqp.link import Connection
from smena.clock import SYSTEM, Clock
from smena.errors import BrokerLost
from smena.settings.groups import Amqp
from workers.broker.asking import Asking
from workers.broker.visit import connected

_AT_ONCE: Final = 256
"""Questions within one time-out; one about a queue that is not there costs a channel, some milliseconds."""


class Stand(NamedTuple):
    """How a queue stands: its ready messages, and its consumers, who may have others in hand."""

    ready: int
    consumers: int


class Depths:
    """Depths of queues over one connection; ask from any thread but the link's."""

    def __init__(self, connection: Connection) -> None:
        self._post = connection.thread.post
        self._asking = Asking(connection)

    def of(self, queues: Sequence[str], timeout_s: float) -> dict[str, int]:
        """Return the number of ready messages of each queue that exists; raise `BrokerLost` when none answers."""
        return {queue: stand.ready for queue, stand in self.stands(queues, timeout_s).items()}

    def stands(self, queues: Sequence[str], timeout_s: float) -> dict[str, Stand]:
        """Return how each queue stands that exists; raise `BrokerLost` when none answers."""
        survey = _Survey(queues)
        self._post(lambda: survey.begin(self._asking))
        if not survey.finished.wait(timeout_s):
            raise BrokerLost("no answer about the depth of queues", after_s=timeout_s)
        if survey.lost is not None:
            raise BrokerLost(survey.lost)
        return survey.stands


def depths_once(settings: Amqp, queues: Sequence[str], clock: Clock = SYSTEM) -> dict[str, int]:
    """Return the depths over a connection that is made for this one question; they may be thousands of queues."""
    return {queue: stand.ready for queue, stand in stands_once(settings, queues, clock).items()}


def stands_once(settings: Amqp, queues: Sequence[str], clock: Clock = SYSTEM) -> dict[str, Stand]:
    """Return how the queues stand over a connection that is made for this one question."""
    found: dict[str, Stand] = {}
    with connected(settings, "depths", clock) as connection:
        depths = Depths(connection)
        for first in range(0, len(queues), _AT_ONCE):
            found |= depths.stands(queues[first : first + _AT_ONCE], settings.connect_timeout_s)
    return found


class _Survey:
    """One question for each queue, and the answers so far."""

    def __init__(self, queues: Sequence[str]) -> None:
        self.stands: dict[str, Stand] = {}
        self.lost: str | None = None
        self.finished = threading.Event()
        self._queues = queues
        self._left = len(queues)

    def begin(self, asking: Asking) -> None:
        """Put all questions."""
        for queue in self._queues:
            asking.ask(self._question(queue), self._answer)
        if not self._queues:
            self.finished.set()

    def _question(self, queue: str) -> Callable[[Channel, Callable[[Any], None]], object]:
        def ask(channel: Channel, reply: Callable[[Any], None]) -> None:
            def note(frame: Any) -> None:
                self.stands[queue] = Stand(frame.method.message_count, frame.method.consumer_count)
                reply(frame)

            channel.queue_declare(queue, passive=True, callback=note)

        return ask

    def _answer(self, reason: BaseException | None) -> None:
        """Count it; a channel that the broker closed means that there is no such queue."""
        if isinstance(reason, ConnectionError):
            self.lost = str(reason)
        self._left -= 1
        if self._left == 0:
            self.finished.set()
