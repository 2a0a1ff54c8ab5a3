"""Make a consumer a service: subscribed between start and stop."""

from __future__ import annotations

import threading
from typing import Final

from smena.clock import Deadline
from workers.broker.consumer import Consumer

_CANCEL_S: Final = 2.0
"""A broker that does not answer a cancel gets everything back when the connection ends."""


class Consuming:
    """A consumer's life as one of a group."""

    name = "consuming"

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def start(self) -> None:
        """Subscribe, now and after every reconnect."""
        self._consumer.start()

    def stop(self, deadline: Deadline) -> bool:
        """Take nothing more."""
        cancelled = threading.Event()
        self._consumer.cancel(cancelled.set)
        cancelled.wait(min(deadline.left_s(), _CANCEL_S))
        return True
