"""Connect for one purpose and leave again: what commands and boot checks do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from smena.amqp.link import Connection, LinkThread
from smena.clock import Clock, Deadline
from smena.errors import BrokerLost
from smena.settings.groups import Amqp

_CLOSE_S: Final = 2.0


@contextmanager
def connected(settings: Amqp, name: str, clock: Clock) -> Iterator[Connection]:
    """Give a connection for one purpose, up; raise `BrokerLost` when no address answers."""
    thread = LinkThread(f"smena-{name}", clock)
    connection = Connection(thread, settings, name)
    thread.start()
    connection.start()
    try:
        if not connection.wait_up(settings.connect_timeout_s * len(settings.urls)):
            raise BrokerLost(connection.why_down())
        yield connection
    finally:
        deadline = Deadline.within(_CLOSE_S, clock)
        connection.stop(deadline)
        thread.stop(deadline)
