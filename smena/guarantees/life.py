"""Let everybody see at once whether a worker process lives.

The process holds a session's advisory lock on a connection of its own. The kernel closes that connection when the
process dies, however it dies, and PostgreSQL lets go of the lock within milliseconds: what is in the table `lives`
and not locked is a death that nobody has looked into yet. A process that lost its connection seems dead until it has
another; the worst of it is that what it had begun runs apart from others once.
"""

from __future__ import annotations

import threading
from typing import Any, Final

import psycopg

from smena.clock import Deadline
from smena.errors import DatabaseLost
from smena.lifecycle import Loop
from smena.records.strikes import lock_name
from smena.store.database import Database
from smena.store.faults import translate
from smena.telemetry import events

EVERY_S: Final = 1.0
FIRST_S: Final = 5.0
"""How long the start waits for the first hold: a job that runs before it would not be missed."""

_LOCK: Final = b"SELECT pg_advisory_lock(hashtextextended(%s, 0))"
_BEGIN: Final = b"INSERT INTO smena.lives (life, worker, host) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
_ALIVE: Final = b"SELECT 1"
_FORGET: Final = b"DELETE FROM smena.starts WHERE life = %s"
_END: Final = b"DELETE FROM smena.lives WHERE life = %s"


class Life(Loop):
    """Hold one process's life while it lives; a service."""

    def __init__(self, database: Database, life: str, worker: str, host: str) -> None:
        super().__init__("life", self._round, events.loop_failed)
        self.life = life
        self.worker = worker
        self.host = host
        self._database = database
        self._connection: psycopg.Connection[Any] | None = None
        self._held = threading.Event()

    def start(self) -> None:
        """Begin to hold it; while PostgreSQL cannot be reached nobody can ask for it either."""
        super().start()
        self._held.wait(FIRST_S)

    def stop(self, deadline: Deadline) -> bool:
        """End it in order: nothing that this process began is missed."""
        ended = super().stop(deadline)
        if ended and self._connection is not None:
            self._end(self._connection)
        return ended

    def _round(self, stopping: threading.Event) -> None:
        try:
            if self._connection is None:
                self._begin()
            else:
                self._connection.execute(_ALIVE)
        except psycopg.Error as error:
            self._let_go()
            raise translate(error) or DatabaseLost(str(error)) from error
        stopping.wait(EVERY_S)

    def _begin(self) -> None:
        self._connection = connection = self._database.connect(autocommit=True)
        connection.execute(_LOCK, (lock_name(self.life),))  # first: a row without a lock is a death
        connection.execute(_BEGIN, (self.life, self.worker, self.host))
        self._held.set()

    def _end(self, connection: psycopg.Connection[Any]) -> None:
        try:
            connection.execute(_FORGET, (self.life,))
            connection.execute(_END, (self.life,))
        except psycopg.Error as error:  # the supervisor's burial does the same
            events.loop_failed(self.name, error)
        self._let_go()

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
