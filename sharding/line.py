"""Keep a connection of one's own to PostgreSQL, in autocommit, and open another when it was lost.

Each statement is its own transaction, which the server ends by itself: a process that is frozen between two
statements holds no lock that others wait for. An answer is waited for so long and no longer (P06).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from smena.store.database import Database
from smena.store.faults import translated
from smena.store.held import HoldableConnection


class Line:
    """One thread's connection; nothing is opened before the first use."""

    def __init__(self, database: Database, answer_within_s: float) -> None:
        self._database = database
        self._answer_within_s = answer_within_s
        self._connection: HoldableConnection | None = None

    @contextmanager
    def open(self) -> Iterator[HoldableConnection]:
        """Lend the connection; errors come out translated, and a broken connection is not lent again."""
        with translated():
            try:
                yield self._standing()
            except psycopg.Error:
                self.close()
                raise

    def close(self) -> None:
        """Hang up."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _standing(self) -> HoldableConnection:
        if self._connection is None or self._connection.closed:
            self._connection = self._database.connect(autocommit=True)
            self._connection.answer_within_s = self._answer_within_s
        return self._connection
