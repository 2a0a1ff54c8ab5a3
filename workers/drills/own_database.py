"""A database of one session's own, on the server of one that was given.

What fleets share they share by database: outbox, leadership, schedules, claims. In the given one another fleet's relay
would send this session's rows, and this session's relay that fleet's, to queues that nobody consumes.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql

from smena.errors import Refused, SmenaError
from smena.store.database import libpq_url


class NotMade(Refused):
    """A session needs a database of its own, and it could not be made."""


class NotDropped(SmenaError):
    """The session's database is still there."""


class OwnDatabase:
    """A database beside the one at the address ``given``, under a name that nobody has."""

    def __init__(self, given: str, purpose: str) -> None:
        self._given = given
        self.name = f"smena_{purpose}_{uuid.uuid4().hex[:8]}"

    @property
    def url(self) -> str:
        """Return its address."""
        return self.beside(self._given)

    def beside(self, address: str) -> str:
        """Return an address of the given server, which may name another way to it, with this database in it."""
        scheme, _, rest = address.partition("://")
        place, mark, query = rest.partition("?")
        words = [word for word in query.split("&") if not word.startswith("dbname=")]  # libpq prefers it to the path
        return f"{scheme}://{place.partition('/')[0]}/{self.name}{mark}{'&'.join(words)}"

    def create(self) -> None:
        """Make it, empty; raise `NotMade` where that cannot be."""
        try:
            self._do("CREATE DATABASE {} TEMPLATE template0")
        except psycopg.errors.InsufficientPrivilege as refusal:
            raise NotMade(
                "the role of SMENA_DATABASE_URL may not create the database that this needs for itself: give the "
                "address of one that may (ALTER ROLE … CREATEDB), or none, and a private server is started"
            ) from refusal
        except psycopg.Error as error:
            raise NotMade(f"no database could be made by SMENA_DATABASE_URL: {str(error).strip()}") from error

    def drop(self) -> None:
        """Remove it, whoever is still connected; raise `NotDropped` if it stays."""
        try:
            self._do("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        except psycopg.Error as error:
            raise NotDropped(f"the database {self.name} was not dropped: {str(error).strip()}") from error

    @contextmanager
    def had(self, *, keep: bool) -> Iterator[None]:
        """Have it for the block; with ``keep`` also after it."""
        self.create()
        try:
            yield
        finally:
            if not keep:
                self.drop()

    def _do(self, statement: str) -> None:
        with psycopg.connect(libpq_url(self._given), autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(sql.Identifier(self.name)))
