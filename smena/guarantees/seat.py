"""Let one process of the fleet at a time do a small piece of upkeep.

A seat is a session's advisory lock on a connection of its own (P41: never one from a pool). It saves work
and is no fence: for a moment two may think they sit, so what is done on a seat must be harmless when done
twice. The connection's end frees it; a holder that no longer hears the server learns it at its next `held`.
"""

from __future__ import annotations

from typing import Any, Final

import psycopg

from smena.errors import DatabaseLost
from smena.store.database import Database
from smena.store.faults import translate
from smena.telemetry import events
from smena.telemetry.plain_text import error_text

_TAKE: Final = b"SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
_ALIVE: Final = b"SELECT 1"


class Seat:
    """A place that at most one process has; belongs to one thread."""

    def __init__(self, database: Database, name: str) -> None:
        self.name = name
        self._database = database
        self._connection: psycopg.Connection[Any] | None = None
        self._sits = False

    def held(self) -> bool:
        """Say whether the seat is ours, after trying to take it; raise `DatabaseLost` where none can answer."""
        try:
            if self._connection is None:
                self._connection = self._database.connect(autocommit=True)
            if self._sits:
                self._connection.execute(_ALIVE)
            else:
                self._sits = self._taken(self._connection)
        except psycopg.Error as error:
            self._lose(error)
            raise translate(error) or DatabaseLost(str(error)) from error
        return self._sits

    def leave(self) -> None:
        """Let another have it."""
        self._sits = False
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _taken(self, connection: psycopg.Connection[Any]) -> bool:
        row = connection.execute(_TAKE, (f"smena.seat.{self.name}",)).fetchone()
        taken = bool(row and row[0])
        if taken:
            events.emit(events.SEAT_TAKEN, seat=self.name)
        return taken

    def _lose(self, error: psycopg.Error) -> None:
        if self._sits:
            events.emit(events.SEAT_LOST, seat=self.name, error=error_text(error))
        self.leave()
