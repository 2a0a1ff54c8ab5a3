"""Connect a service, so that it can send.

A service calls `connect` once, in the process that sends (after a fork, not before), and closes it at its
end. There is one thread and one connection to RabbitMQ for the whole process, opened in the background:
`connect` returns at once, and a send waits for the broker until the publish deadline. PostgreSQL, if it is
configured, is only used for long delays; messages that belong to a business change go by `smena.outbox`.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from smena import settings as settings_room
from smena.amqp.link import Connection, LinkThread
from smena.amqp.publisher import Publisher
from smena.book import bind_sender, unbind_sender
from smena.clock import SYSTEM, Deadline
from smena.errors import SmenaError
from smena.job import Job
from smena.lifecycle import Group
from smena.publishing import Publishing
from smena.settings import Settings
from smena.store.database import Database

CLOSE_S: Final = 15.0
"""So long `Connected.close` waits for sends that are under way; a connection itself closes in a second."""

_POOL_SIZE: Final = 2
"""Connections for long delays; a service's own transactions use the service's own engine."""


class Connected:
    """A process that can send. Use it as a context manager, or `close` it."""

    def __init__(self, settings: Settings) -> None:
        thread = LinkThread("smena-link", SYSTEM)
        self._connection = Connection(thread, settings.amqp, "smena-publish")
        publisher = Publisher(self._connection, settings.amqp, SYSTEM)
        self._database = _database(settings)
        self._publishing = Publishing(publisher, self._database, settings.outbox.delay_via_outbox_s)
        self._services = Group("connected", (thread, self._connection, publisher), lambda: _within(CLOSE_S))

    def wait_up(self, timeout_s: float) -> bool:
        """Wait until RabbitMQ has been reached once; say whether it has. For a probe; sends wait by themselves."""
        return self._connection.wait_up(timeout_s)

    def send(self, job: Job, *, delay_s: float = 0.0) -> None:
        """Send one job; see `smena.book.Sender`."""
        self._publishing.send(job, delay_s=delay_s)

    async def asend(self, job: Job, *, delay_s: float = 0.0) -> None:
        """Send one job from an event loop."""
        await self._publishing.asend(job, delay_s=delay_s)

    def send_many(self, jobs: Sequence[Job]) -> list[SmenaError | None]:
        """Send many at once; return one outcome for each, in order: None, or why it was not taken over."""
        return self._publishing.send_many(jobs)

    def open(self) -> Self:
        """Start, and become the sender of this process; raise `Misconfigured` if there is one already."""
        bind_sender(self)
        try:
            self._services.start()
        except BaseException:
            unbind_sender(self)
            raise
        return self

    def close(self, timeout_s: float = CLOSE_S) -> bool:
        """End politely: wait for sends under way, then close; say whether all ended. Safe twice."""
        unbind_sender(self)
        ended = self._services.stop(_within(timeout_s))
        if self._database is not None:
            self._database.close()
        return ended

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def connect(settings: Settings | None = None) -> Connected:
    """Connect this process and let ``actor.send`` and all other verbs go by it.

    Without ``settings`` they are loaded from the environment and `smena.toml`. Raises `Misconfigured` for
    settings that do not fit, and for a process that is connected already.

    >>> with smena.connect():                                                   # doctest: +SKIP
    ...     charge.send("489434")
    """
    return Connected(settings or settings_room.load()).open()


def _database(settings: Settings) -> Database | None:
    return Database(settings.database, "smena service", _POOL_SIZE) if settings.database.url is not None else None


def _within(seconds: float) -> Deadline:
    return Deadline.within(seconds, SYSTEM)
