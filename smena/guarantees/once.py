"""Run a job's effect once: its key commits in the effect's own transaction (guarantee 2).

`Once.run` opens the transaction, writes the key, lends the job a session inside, and commits. A second run of
the same key finds it, and gets the result that the first one kept; a run beside the first waits for it on the
key's row, at most the session's lock timeout, and then raises `KeyInUse`: come back later.

It fails closed. Whatever happens before the commit was answered leaves no key and no effect, and if only the
answer was lost, the next run finds the key. The session may commit and roll back as it likes (see
`smena/store/held.py`); the key stands or falls with the whole.

Errors of the body come out as they are; those of the key and the commit are of the taxonomy.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec
import psycopg
import sqlalchemy as sa
from psycopg import pq
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session

from smena.errors import DatabaseBusy, DatabaseLost, Overdue, Permanent, TimedOut
from smena.records import once_keys, turns
from smena.records.once_keys import OnceKey
from smena.records.turns import Turn
from smena.store.database import Database
from smena.store.faults import first_line, translated
from smena.store.held import AsyncHoldableConnection, HoldableConnection, async_driver_of, driver_of

__all__ = ["GuardRefused", "InvalidResult", "KeyInUse", "Once", "OnceKey", "OnceResult"]

R = TypeVar("R")

_OF_THE_TEXT: Final = "22"
"""The class of SQLSTATE for data: a key, or a job's id, has characters that the database's encoding has not."""

_PREPARE = once_keys.PREPARE + b";" + turns.PREPARE


class KeyInUse(DatabaseBusy):
    """Another run of the same effect holds the key."""

    code = "key_in_use"


class GuardRefused(DatabaseLost):
    """PostgreSQL refuses the statements that guard the job's effect; nothing can be decided without them."""

    code = "guard_refused"


class InvalidResult(Permanent):
    """What the job returned cannot be kept as JSON."""

    code = "invalid_result"


@dataclass(frozen=True, slots=True)
class OnceResult(Generic[R]):
    """What came of a run; ``found`` means that the effect had happened and ``result`` is what was kept of it."""

    found: bool
    result: R | Any


class Once:
    """The transaction around a job's effect; one per process, used from all its threads.

    ``keep_s`` is how long a key is kept: longer than any second copy of its job can come.
    """

    def __init__(self, database: Database, keep_s: float = 30 * 86_400) -> None:
        self._database = database
        self._keep_s = keep_s

    def run(self, key: OnceKey, body: Callable[[Session], R], turn: Turn | None = None) -> OnceResult[R]:
        """Call ``body`` in a transaction that holds the key, or return what an earlier run kept.

        Raises `KeyInUse`, `GuardRefused`, `DatabaseLost`, `DatabaseBusy`, `InvalidResult`, `TermLost`, and whatever
        ``body`` raises; in each case nothing was committed, except that a lost answer to the commit is `DatabaseLost`
        too.
        """
        with self._database.lend() as connection, _lent(connection) as session:
            with _key_errors(key):
                driver, taken = self._take(connection, key, turn)
                if not taken:
                    row = driver.execute(once_keys.FIND, once_keys.names(key)).fetchone()
                    driver.drop()
                    return OnceResult(found=True, result=_kept(row))
            result = body(session)
            session.flush()
            with translated(), _turn_errors(turn):
                driver.keep(_closing(driver, key, result, turn))
            return OnceResult(found=False, result=result)

    async def arun(
        self, key: OnceKey, body: Callable[[AsyncSession], Awaitable[R]], turn: Turn | None = None
    ) -> OnceResult[R]:
        """Do the same on the event loop."""
        async with self._aconnection() as connection, _alent(connection) as session:
            with _key_errors(key):
                driver, taken = await self._atake(connection, key, turn)
                if not taken:
                    cursor = await driver.execute(once_keys.FIND, once_keys.names(key))
                    row = await cursor.fetchone()
                    await driver.drop()
                    return OnceResult(found=True, result=_kept(row))
            result = await body(session)
            await session.flush()
            with translated(), _turn_errors(turn):
                await driver.keep(_closing(driver, key, result, turn))
            return OnceResult(found=False, result=result)

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Lend a session without a key, for a job that declares none; committed at the end."""
        with self._database.lend() as connection, _lent(connection) as session:
            driver = driver_of(connection)
            driver.begin_in_time()
            yield session
            session.commit()
            driver.rinse()

    @contextmanager
    def whole(self) -> Iterator[Session]:
        """Lend a session without a key that cannot commit a part: its own commits and rollbacks move a savepoint."""
        with self._database.lend() as connection, _lent(connection) as session:
            driver = driver_of(connection)
            with _guarding():
                driver.hold(b"", _PREPARE)
            yield session
            session.flush()
            with translated():
                driver.keep()

    @asynccontextmanager
    async def atransaction(self) -> AsyncIterator[AsyncSession]:
        """Lend a session without a key on the event loop; committed at the end."""
        async with self._aconnection() as connection, _alent(connection) as session:
            driver = await async_driver_of(connection)
            await driver.begin_in_time()
            yield session
            await session.commit()
            await driver.rinse()

    @asynccontextmanager
    async def _aconnection(self) -> AsyncIterator[AsyncConnection]:
        connection = await self._database.achecked_out()
        try:
            yield connection
        finally:
            await connection.close()

    def _take(self, connection: sa.Connection, key: OnceKey, turn: Turn | None) -> tuple[HoldableConnection, bool]:
        """Open the transaction with the key; return the driver's connection and whether the key is ours."""
        driver = driver_of(connection)
        return driver, once_keys.taken(driver.hold(self._opening(driver, key, turn), _PREPARE))

    async def _atake(
        self, connection: AsyncConnection, key: OnceKey, turn: Turn | None
    ) -> tuple[AsyncHoldableConnection, bool]:
        driver = await async_driver_of(connection)
        return driver, once_keys.taken(await driver.hold(self._opening(driver, key, turn), _PREPARE))

    def _opening(self, driver: HoldableConnection | AsyncHoldableConnection, key: OnceKey, turn: Turn | None) -> bytes:
        """Return the first statements: the key is written, and a turn's bound is set."""
        taking = once_keys.take(_quote(driver), key, self._keep_s)
        return taking if turn is None else taking + turns.beginning(turn)


def is_gone(session: Session | AsyncSession) -> bool:
    """Say whether the connection that the session was lent is lost, not just its statement refused."""
    inner = session.sync_session if isinstance(session, AsyncSession) else session
    connection = inner.get_bind()
    return isinstance(connection, sa.Connection) and (connection.invalidated or connection.closed)


@contextmanager
def _lent(connection: sa.Connection) -> Iterator[Session]:
    """Lend a session; when the block fails, roll back, or close the connection if it is in doubt.

    In this order: a session that is closed while the transaction is held only goes back to the savepoint.
    """
    session = Session(connection, expire_on_commit=False)
    try:
        yield session
    except BaseException as error:
        if not connection.invalidated and (_in_doubt(error) or not driver_of(connection).drop()):
            connection.invalidate(error)
        raise
    finally:
        session.close()
        if not connection.invalidated and driver_of(connection).unclean:
            connection.invalidate()


@asynccontextmanager
async def _alent(connection: AsyncConnection) -> AsyncIterator[AsyncSession]:
    """Do the same on the event loop, where a second cancellation may come while the first is rolled back."""
    session = AsyncSession(connection, expire_on_commit=False)
    try:
        yield session
    except BaseException as error:
        if not connection.invalidated and (_in_doubt(error) or not await (await async_driver_of(connection)).drop()):
            await connection.invalidate(error)
        raise
    finally:
        await session.close()
        if not connection.invalidated and (await async_driver_of(connection)).unclean:
            await connection.invalidate()


@contextmanager
def _key_errors(key: OnceKey) -> Iterator[None]:
    try:
        with _guarding():
            yield
    except DatabaseBusy as error:
        if isinstance(error.__cause__, psycopg.errors.LockNotAvailable):
            raise KeyInUse(actor=key.actor, key=key.kept(), job=key.job_id) from error.__cause__
        raise


@contextmanager
def _guarding() -> Iterator[None]:
    """Take what is wrong with our own statements as no fault of the job's, which has not begun."""
    try:
        with translated():
            yield
    except psycopg.Error as error:
        if (error.sqlstate or "").startswith(_OF_THE_TEXT):
            raise
        raise GuardRefused(first_line(error), sqlstate=error.sqlstate) from error


@contextmanager
def _turn_errors(turn: Turn | None) -> Iterator[None]:
    try:
        yield
    except turns.NOT_OURS:
        if turn is None:
            raise
        raise turns.lost(turn) from None


def _in_doubt(error: BaseException) -> bool:
    """Say whether the connection is not to be used again: it was left between two lines, or our statements fail on it.

    A time limit strikes at an arbitrary line, as an exception in the thread; shutdown and cancellation are no
    `Exception`. The error is not asked, which could raise: the connection would keep what the job wrote.
    """
    kind = type(error)
    return issubclass(kind, TimedOut | Overdue | GuardRefused) or not issubclass(kind, Exception)


def _quote(driver: HoldableConnection | AsyncHoldableConnection) -> once_keys.Quote:
    return pq.Escaping(driver.pgconn).escape_literal


def _closing(
    driver: HoldableConnection | AsyncHoldableConnection, key: OnceKey, result: object, turn: Turn | None
) -> bytes:
    """Return the last statements before the COMMIT: the result is kept, and the job's turn is not over."""
    return _keeping(driver, key, result) + (b"" if turn is None else turns.ending(_quote(driver), turn))


def _keeping(driver: HoldableConnection | AsyncHoldableConnection, key: OnceKey, result: object) -> bytes:
    """Return the statement that keeps the result; none for None, which is what the row says already."""
    if result is None:
        return b""
    try:
        kept = msgspec.json.encode(result)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidResult(str(error), actor=key.actor) from error
    return once_keys.keep_result(_quote(driver), key, kept)


def _kept(row: tuple[str | None] | None) -> Any:
    return None if row is None or row[0] is None else msgspec.json.decode(row[0])
