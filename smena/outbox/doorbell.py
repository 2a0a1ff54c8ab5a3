"""Wake a relay when rows were written, and cost the writers nothing while it is awake.

`NOTIFY` makes committing transactions queue behind one lock of the whole server (their disk syncs
included), so it is sent only where somebody sleeps. How that is known: a relay that lies down takes
the advisory lock `SLEEPERS` alone, for its session; a writer tries to share it for its transaction and
notifies when it cannot. No wake-up is lost: a writer that got its share holds it until its commit, so
a relay that gets the lock afterwards sees that row in the look that it takes once more before it
sleeps. A relay that cannot get the lock because writers are under way looks again after milliseconds.

The connection is dedicated: a pooler in transaction mode would lose both lock and `LISTEN`. When it
is lost, the doorbell is deaf, `lie_down` answers `DEAF` until a new connection stands, and the relay's
poll is what is left.
"""

from __future__ import annotations

import enum
import selectors
import socket
from collections.abc import Callable
from typing import Any, Final

import psycopg

from smena.backoff import Backoff, Pause
from smena.clock import Clock
from smena.telemetry import events
from smena.telemetry.plain_text import error_text

CHANNEL: Final = "smena_outbox"
SLEEPERS: Final = 0x736D656E61_01
"""The advisory lock's key: `smena` in ASCII and a number."""

_LOCK: Final = f"SELECT pg_try_advisory_lock({SLEEPERS})".encode()
_SHARE: Final = (
    f"SELECT CASE WHEN pg_try_advisory_lock_shared({SLEEPERS}) "
    f"THEN pg_advisory_unlock_shared({SLEEPERS}) ELSE false END".encode()
)
_UNLOCK: Final = f"SELECT pg_advisory_unlock({SLEEPERS})".encode()
_LISTEN: Final = f"LISTEN {CHANNEL}".encode()


class Rest(enum.Enum):
    """How a relay may rest."""

    LOOK_ONCE_MORE = "just lain down: look once more, then lie down again"
    SOUND = "writers ring: sleep as long as the poll allows"
    BESIDE = "another relay sleeps and is rung for: sleep as long as the poll allows"
    LIGHT = "writers are under way that will not ring: look again soon"
    DEAF = "no connection: only the poll is left"


class Doorbell:
    """One relay's ear; every method but `knock` belongs to the relay's thread."""

    def __init__(
        self,
        connect: Callable[[], psycopg.Connection[Any]],
        clock: Clock,
    ) -> None:
        self._connect = connect
        self._clock = clock
        self._connection: psycopg.Connection[Any] | None = None
        self._lies = False
        self._retry_at_s = 0.0
        self._pause = Pause(Backoff(base_s=0.2, cap_s=3.0, floor_s=0.1))
        self._hand, self._clapper = socket.socketpair()
        for end in (self._hand, self._clapper):
            end.setblocking(False)  # noqa: FBT003 (the library's)

    def lie_down(self) -> Rest:
        """Make writers ring from now on, if that can be had, and say how to rest."""
        if self._lies:
            return Rest.SOUND
        try:
            connection = self._standing()
            if connection is None:
                return Rest.DEAF
            if _asked(connection, _LOCK):
                self._lies = True
                return Rest.LOOK_ONCE_MORE
            return Rest.LIGHT if _asked(connection, _SHARE) else Rest.BESIDE
        except psycopg.Error as error:
            self._lose(error)
            return Rest.DEAF

    def rise(self) -> None:
        """Let writers commit without ringing: there is so much to do that we look anyway."""
        if not self._lies or self._connection is None:
            return
        self._lies = False
        try:
            _asked(self._connection, _UNLOCK)
        except psycopg.Error as error:
            self._lose(error)

    def wait(self, timeout_s: float) -> None:
        """Return when a writer rang, somebody knocked, the connection broke, or time is up."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._clapper, selectors.EVENT_READ)
            if self._connection is not None:
                selector.register(self._connection, selectors.EVENT_READ)
            ready = [key.fileobj for key, _ in selector.select(timeout_s)]
        if self._clapper in ready:
            self._clapper.recv(4096)
        if self._connection is not None and self._connection in ready:
            self._hear(self._connection)

    def knock(self) -> None:
        """End a `wait`, now or the next one; from any thread."""
        try:
            self._hand.send(b"\0")
        except OSError:
            return  # full of knocks already, or closed: the relay has stopped

    def close(self) -> None:
        """Let go of everything."""
        self._drop()
        self._hand.close()
        self._clapper.close()

    def _standing(self) -> psycopg.Connection[Any] | None:
        if self._connection is None and self._clock.monotonic() >= self._retry_at_s:
            self._connection = self._connect()
            self._connection.execute(_LISTEN)
            self._pause.reset()
        return self._connection

    def _hear(self, connection: psycopg.Connection[Any]) -> None:
        try:
            for _ in connection.notifies(timeout=0):
                pass  # a doorbell says nothing but that it rang
        except psycopg.Error as error:
            self._lose(error)

    def _lose(self, error: psycopg.Error) -> None:
        self._drop()
        self._retry_at_s = self._clock.monotonic() + self._pause.next_s()
        events.emit(events.RELAY_DEAF, error=error_text(error))

    def _drop(self) -> None:
        self._lies = False
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _asked(connection: psycopg.Connection[Any], question: bytes) -> bool:
    row = connection.execute(question).fetchone()
    return bool(row and row[0])
