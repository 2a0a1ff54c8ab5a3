"""Let one process of the fleet at a time do a small piece of upkeep.

A solo is a session's advisory lock on a connection of its own (P41: never one from a pool). It saves work
and is no fence: for a moment two may think that they hold it, so what is done under it must be harmless
when done twice. The connection's end frees it; a holder that the server no longer hears learns it at its
next `held`.
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


class Solo:
    """What at most one process does; belongs to one thread."""

    def __init__(self, database: Database, duty: str) -> None:
        self.duty = duty
        self._database = database
        self._connection: psycopg.Connection[Any] | None = None
        self._ours = False

    def held(self) -> bool:
        """Say whether it is ours, after trying to take it; raise `DatabaseLost` where nobody can answer."""
        try:
            if self._connection is None:
                self._connection = self._database.connect(autocommit=True)
            if self._ours:
                self._connection.execute(_ALIVE)
            else:
                self._ours = self._taken(self._connection)
        except psycopg.Error as error:
            self._lose(error)
            raise translate(error) or DatabaseLost(str(error)) from error
        return self._ours

    def leave(self) -> None:
        """Let another have it."""
        self._ours = False
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _taken(self, connection: psycopg.Connection[Any]) -> bool:
        row = connection.execute(_TAKE, (f"smena.solo.{self.duty}",)).fetchone()
        taken = bool(row and row[0])
        if taken:
            events.emit(events.SOLO_TAKEN, duty=self.duty)
        return taken

    def _lose(self, error: psycopg.Error) -> None:
        if self._ours:
            events.emit(events.SOLO_LOST, duty=self.duty, error=error_text(error))
        self.leave()
