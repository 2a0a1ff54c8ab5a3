"""Open PostgreSQL: one `Database` per process, with an engine for threads and one for the event loop.

Nothing is opened before the first use. Every session carries the limits that guarantee 3 needs (a frozen
owner holds nothing up) and notices a dead peer (P06): keepalives find a silent one, `tcp_user_timeout` one
that takes no more data, `connect_timeout` one that does not answer at first, and the wait for each answer is
bounded by the statement timeout and the connect timeout together.
A connection that the server closed while it was idle (a restart) is replaced before it is lent, which asks the
socket only: there is no ping. Whoever holds a lost one gets `DatabaseLost`, and the idle ones are dropped with it.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any, Final, Protocol

import sqlalchemy as sa
from psycopg import conninfo
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import ConnectionPoolEntry

from smena.errors import Misconfigured
from smena.store.faults import translated
from smena.store.held import AsyncHoldableConnection, HoldableConnection, hung_up
from smena.store.lanes import Lanes
from smena.store.waits import Waits

_LIVENESS: Final[dict[str, str | int]] = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
"""A peer that is gone is found within 25 seconds, whether we wait for it or send to it."""

_SESSION: Final = {
    "timezone": "UTC",
    "standard_conforming_strings": "on",
    "default_transaction_isolation": r"read\ committed",
}


class Secret(Protocol):
    """A value that is not printed."""

    def get_secret_value(self) -> str:
        """Return it."""


class DatabaseSettings(Protocol):
    """What `Database` wants of the settings."""

    @property
    def url(self) -> Secret | None: ...
    @property
    def pool_size(self) -> int | None: ...
    @property
    def lock_timeout_s(self) -> float: ...
    @property
    def idle_in_transaction_s(self) -> float: ...
    @property
    def statement_timeout_s(self) -> float: ...
    @property
    def connect_timeout_s(self) -> float: ...


class Database:
    """PostgreSQL, as one process sees it.

    ``pool_size`` is the number of connections each of the two engines may open; the setting wins over it.
    """

    def __init__(self, settings: DatabaseSettings, application_name: str, pool_size: int = 10) -> None:
        if settings.url is None:
            raise Misconfigured("this feature needs PostgreSQL; set database.url (SMENA_DATABASE_URL)")
        self._conninfo = connection_string(settings.url.get_secret_value(), settings, application_name)
        # The server ends any statement in time; what it then still owes is the answer.
        self._statement_timeout_s = settings.statement_timeout_s
        self.answer_within_s = settings.statement_timeout_s + settings.connect_timeout_s
        self._pool: dict[str, Any] = {
            "pool_size": settings.pool_size or pool_size,
            "max_overflow": 0,
            "pool_timeout": settings.connect_timeout_s,
            "pool_use_lifo": True,
        }
        self._opening = threading.Lock()
        self._engine: sa.Engine | None = None
        self._waits = Waits()
        self._lanes = Lanes(self._checked_out)
        self._aengine: AsyncEngine | None = None

    @property
    def engine(self) -> sa.Engine:
        """The engine for threads."""
        with self._opening:
            if self._engine is None:
                self._engine = sa.create_engine("postgresql+psycopg://", creator=self._connect_pooled, **self._pool)
                sa.event.listen(self._engine, "checkout", _refuse_hung_up)
            return self._engine

    @property
    def aengine(self) -> AsyncEngine:
        """The engine for the event loop; it belongs to the loop that first uses it."""
        with self._opening:
            if self._aengine is None:
                self._aengine = create_async_engine(
                    "postgresql+psycopg://", async_creator=self._aconnect_pooled, **self._pool
                )
                sa.event.listen(self._aengine.sync_engine, "checkout", _refuse_hung_up)
            return self._aengine

    def connect(self, *, autocommit: bool = False) -> HoldableConnection:
        """Open a connection of its own beside the pool (LISTEN, COPY, a session lock); the caller closes it."""
        return HoldableConnection.connect(self._conninfo, autocommit=autocommit)

    def alone(self) -> sa.Connection:
        """Open a connection of its own beside the pool, for rows and a session lock together; the caller closes it.

        Every statement commits by itself: nothing that freezes between two of them holds anything up.
        """
        engine = sa.create_engine("postgresql+psycopg://", creator=self.connect, poolclass=sa.NullPool)
        with translated():
            return engine.connect().execution_options(isolation_level="AUTOCOMMIT")

    def session(self) -> Session:
        """Return a session in no transaction yet; the caller commits and closes it."""
        return Session(self.engine, expire_on_commit=False)

    def asession(self) -> AsyncSession:
        """Return a session for the event loop; the caller commits and closes it."""
        return AsyncSession(self.aengine, expire_on_commit=False)

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """Lend a connection in a transaction, committed at the end; driver errors come out translated."""
        with translated(), self.lend() as connection, connection.begin():
            yield connection

    def lend(self) -> AbstractContextManager[sa.Connection]:
        """Lend a connection in no transaction; driver errors come out as they are."""
        return self._lanes.lend()

    @asynccontextmanager
    async def atransaction(self) -> AsyncIterator[AsyncConnection]:
        """Lend a connection in a transaction on the event loop, committed at the end."""
        with translated():
            async with self.aengine.begin() as connection:
                yield connection

    async def achecked_out(self) -> AsyncConnection:
        """Return a connection of the event loop's engine, in no transaction; the caller closes it."""
        connection = self.aengine.connect()
        with translated(), self._waits.noted():
            await connection.start()
        return connection

    def waits(self) -> dict[str, float]:
        """Return how long at most was waited of late for a connection of a pool; the form of a gauge."""
        return {"": self._waits.longest_s()}

    def _checked_out(self) -> sa.Connection:
        with self._waits.noted():
            return self.engine.connect()

    def _connect_pooled(self) -> HoldableConnection:
        connection = self.connect()
        connection.answer_within_s = self.answer_within_s
        connection.statement_timeout_s = self._statement_timeout_s
        return connection

    async def _aconnect_pooled(self) -> AsyncHoldableConnection:
        connection = await AsyncHoldableConnection.connect(self._conninfo)
        connection.answer_within_s = self.answer_within_s
        connection.statement_timeout_s = self._statement_timeout_s
        return connection

    def ping(self) -> None:
        """Ask the server for an answer; raises `DatabaseLost` where none comes."""
        with self.transaction() as connection:
            connection.execute(sa.text("SELECT 1"))

    def close(self) -> None:
        """Close what the threads' engine holds."""
        self._lanes.close()
        if self._engine is not None:
            self._engine.dispose()

    async def aclose(self) -> None:
        """Close what the event loop's engine holds; call it on that loop."""
        if self._aengine is not None:
            await self._aengine.dispose()


def _refuse_hung_up(_adapted: object, record: ConnectionPoolEntry, _proxy: object) -> None:
    """Let the pool replace a connection that the server closed while it was idle."""
    driver = record.driver_connection
    if isinstance(driver, HoldableConnection | AsyncHoldableConnection) and hung_up(driver):
        raise sa.exc.DisconnectionError


def connection_string(url: str, settings: DatabaseSettings, application_name: str) -> str:
    """Return libpq's connection string for a URL, with the limits every session carries.

    The URL may be written for libpq (`postgresql://`) or for SQLAlchemy (`postgresql+psycopg://`); what it
    says itself (`connect_timeout`, `application_name`, …) wins, its ``options`` are kept behind ours.
    """
    own = conninfo.conninfo_to_dict(libpq_url(url))
    limits = _SESSION | {
        "lock_timeout": f"{round(settings.lock_timeout_s * 1000)}ms",
        "idle_in_transaction_session_timeout": f"{round(settings.idle_in_transaction_s * 1000)}ms",
        "statement_timeout": f"{round(settings.statement_timeout_s * 1000)}ms",
    }
    options = " ".join(f"-c {name}={value}" for name, value in limits.items())
    options = f"{options} {own.pop('options', '')}".strip()
    given: dict[str, Any] = {
        **_LIVENESS,
        "connect_timeout": max(2, round(settings.connect_timeout_s)),  # libpq takes 1 as 2
        "application_name": application_name,
        "client_encoding": "UTF8",
        **own,
    }
    return conninfo.make_conninfo("", **given, options=options)


def libpq_url(url: str) -> str:
    """Return a URL as libpq reads it: without SQLAlchemy's name of a driver."""
    scheme, mark, rest = url.partition("://")
    return scheme.partition("+")[0] + mark + rest
