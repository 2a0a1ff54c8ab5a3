"""Let a transaction be owned from above the session that works in it.

The `once` ring opens a transaction, writes the key, and hands the actor a session inside. That session may
commit and roll back as it likes: neither may end the transaction, and a rollback must not take the key away.
So the *connection* knows that it is held: while it is, `commit` and `rollback` move a savepoint, and only
`keep` and `drop` end the transaction. The session above is a plain one and pays for nothing.

Opening (BEGIN, the owner's statements, the savepoint) and closing (the owner's statements, COMMIT, the rinse) are one
round trip each: several statements in one simple query. Measured with 8 threads: 3 round trips in place of
4 or, with SQLAlchemy's own `create_savepoint`, 6 (docs/adr/once-holds-the-connection.md).
"""

from __future__ import annotations

import select
from contextlib import suppress
from typing import Any, Final, TypeVar, cast

import psycopg
import sqlalchemy as sa
from psycopg import generators, pq
from psycopg.abc import PQGen
from psycopg.errors import error_from_result
from psycopg.pq.abc import PGresult
from sqlalchemy.ext.asyncio import AsyncConnection

from smena.context import time_left_s
from smena.errors import DatabaseLost, Permanent, TimeUp
from smena.store.faults import has_other_names
from smena.store.noting import NotingAsyncCursor, NotingCursor
from smena.store.rinse import FAILED, apart, is_clean, rinse

_MARK: Final = b"SAVEPOINT smena_held"
_KEEP_SO_FAR: Final = b"RELEASE SAVEPOINT smena_held;SAVEPOINT smena_held"
_DROP_SO_FAR: Final = b"ROLLBACK TO SAVEPOINT smena_held"
_KEEP_ALL: Final = b"RELEASE SAVEPOINT smena_held;COMMIT"
"""A COMMIT alone would be answered as a success by a server that has no transaction any more, or another one: only
ours has the savepoint. And after a statement that failed, which a job may swallow, a COMMIT alone rolls back and is no
error; a release is one."""

_NO_SAVEPOINT: Final = (psycopg.errors.InvalidSavepointSpecification, psycopg.errors.NoActiveSqlTransaction)

_HALF_PREPARED: Final = b"?"
"""`PREPARE` is in no transaction: what failed half way leaves names behind, and the connection is given up."""

_LOOK_UP_EVERY_S: Final = 0.1
"""How often a wait looks whether the thread was interrupted; psycopg's own default."""

_ANSWER_S: Final = 0.5
"""What the server gets for its answer to a statement whose job's time is up, before it is cancelled."""

_SERVER_S: Final = 0.3
"""What the server gives a statement beyond its job's time: whoever watches the job is to be first, and says so."""

_CANCEL_S: Final = 2.0

_ACTIVE: Final = pq.TransactionStatus.ACTIVE
_IDLE: Final = pq.TransactionStatus.IDLE
_IN_TRANSACTION: Final = frozenset({pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR})
_BY_SQL: Final = "the job ended the transaction it was lent; use the session's commit() and rollback() instead"

RV = TypeVar("RV")


class TransactionEnded(Permanent):
    """The job ended the transaction it was lent, by SQL of its own.

    What it wrote before that is committed or gone, as its statement said; nothing after it was.
    """

    code = "transaction_ended"


class HoldableConnection(psycopg.Connection[Any]):
    """A connection whose transaction can be held; until then it is psycopg's own."""

    held = False
    prepared: bytes | None = None

    unclean = False
    """The session could not be rinsed, or has not the prepared statements that it had: it is not for the next one."""

    locks = False
    """A statement spoke of advisory locks: from then on the session is rinsed of them too."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cursor_factory = NotingCursor

    answer_within_s: float | None = None
    """A server that is silent for longer is given up and the connection closed (P06); None waits for ever."""

    statement_timeout_s: float | None = None
    """The session's own; a job that has less time left is given less."""

    def wait(self, gen: PQGen[RV], interval: float = _LOOK_UP_EVERY_S, timeout: float | None = None) -> RV:
        """Wait as psycopg does, but not for ever: keepalives do not find a server that lives and says nothing.

        A job's statement is waited for no longer than the job may run, for nothing interrupts psycopg: then the
        statement is cancelled on the server and the connection closed.
        """
        patience_s = _patience_s(self, timeout)
        try:
            return super().wait(gen, interval, patience_s)
        except (psycopg.OperationalError, TimeUp):
            if self.pgconn.transaction_status == _ACTIVE:
                if patience_s != self.answer_within_s:
                    self._cancel()
                self.pgconn.finish()
            raise

    def begin_in_time(self) -> None:
        """Begin with a statement timeout of what the job has left, where that is less than the session's."""
        limit = _time_limit(self)
        if limit:
            self._exchange(b"BEGIN;" + limit[:-1])

    def hold(self, opening: bytes, prepare: bytes) -> list[PGresult]:
        """Begin, run ``opening`` and set the savepoint; return the results of ``opening``'s statements.

        ``prepare`` is run once per connection, before the first hold: `PREPARE` statements that
        ``opening`` may `EXECUTE`. Raises the driver's error; the caller drops then.
        """
        if self.prepared != prepare:
            self.prepared = _HALF_PREPARED
            self._exchange(prepare)
            self.prepared = prepare
        self.held = True
        limit = _time_limit(self)
        return self._exchange(_opened(limit, opening))[2 if limit else 1 : -1]

    def keep(self, closing: bytes = b"") -> None:
        """Run ``closing``, commit and rinse the session.

        Raises `TransactionEnded` where the transaction is not ours any more, and the driver's error where the
        job has swallowed one.
        """
        if self.pgconn.transaction_status not in _IN_TRANSACTION:
            raise _not_ours(self)
        ending, rinsing = apart(self._ask(closing + _KEEP_ALL + b";" + rinse(locks=self.locks)))
        _checked(self, ending)
        self.held = False
        self.unclean |= not is_clean(rinsing)

    def drop(self) -> bool:
        """Roll everything back and rinse the session; return whether the connection can be used again.

        False where an exchange was left half way, or the server could not be asked any more; it rolls back by
        itself when such a connection is closed.
        """
        self.held = False
        try:
            rinsing = rinse(locks=self.locks)
            is_open = self.pgconn.transaction_status in _IN_TRANSACTION
            self._exchange(b"ROLLBACK;" + rinsing if is_open else rinsing)
        except psycopg.Error:
            return False
        return self.prepared is not _HALF_PREPARED and self.pgconn.transaction_status == _IDLE

    def rinse(self) -> None:
        """Rinse the session, after a commit that was not `keep`; raises nothing, for what has committed has."""
        try:
            self.unclean |= not is_clean(self._ask(rinse(locks=self.locks)))
        except psycopg.Error:
            self.unclean = True

    def commit(self) -> None:
        """Commit; while held, only make what was done so far safe from `rollback`."""
        if self.held:
            self._exchange(_KEEP_SO_FAR)
        else:
            super().commit()

    def rollback(self) -> None:
        """Roll back; while held, only to the last `commit` or the beginning of the hold."""
        if self.held:
            self._exchange(_DROP_SO_FAR)
        elif self.pgconn.transaction_status != _IDLE:  # asked for twice per job by the layers above, in vain
            super().rollback()

    def _exchange(self, query: bytes) -> list[PGresult]:
        return _checked(self, self._ask(query))

    def _ask(self, query: bytes) -> list[PGresult]:
        with self.lock:
            self.pgconn.send_query(query)
            return self.wait(generators.execute(self.pgconn), timeout=self.answer_within_s)

    def _deallocate(self, name: bytes | None) -> PQGen[None]:
        yield from super()._deallocate(name)
        if name is None:
            yield from _prepared_again(self)

    def _cancel(self) -> None:
        with suppress(psycopg.Error):
            self.cancel_safe(timeout=_CANCEL_S)


class AsyncHoldableConnection(psycopg.AsyncConnection[Any]):
    """The same for a connection on the event loop."""

    held = False
    prepared: bytes | None = None
    unclean = False
    locks = False
    answer_within_s: float | None = None
    statement_timeout_s: float | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cursor_factory = NotingAsyncCursor

    async def wait(self, gen: PQGen[RV], interval: float = _LOOK_UP_EVERY_S, timeout: float | None = None) -> RV:
        """See `HoldableConnection.wait`; a cancelled job's statement is cancelled by psycopg."""
        try:
            return await super().wait(gen, interval, self.answer_within_s if timeout is None else timeout)
        except psycopg.OperationalError:
            if self.pgconn.transaction_status == _ACTIVE:
                self.pgconn.finish()
            raise

    async def begin_in_time(self) -> None:
        """See `HoldableConnection.begin_in_time`."""
        limit = _time_limit(self)
        if limit:
            await self._exchange(b"BEGIN;" + limit[:-1])

    async def hold(self, opening: bytes, prepare: bytes) -> list[PGresult]:
        """See `HoldableConnection.hold`."""
        if self.prepared != prepare:
            self.prepared = _HALF_PREPARED
            await self._exchange(prepare)
            self.prepared = prepare
        self.held = True
        limit = _time_limit(self)
        return (await self._exchange(_opened(limit, opening)))[2 if limit else 1 : -1]

    async def keep(self, closing: bytes = b"") -> None:
        """See `HoldableConnection.keep`."""
        if self.pgconn.transaction_status not in _IN_TRANSACTION:
            raise _not_ours(self)
        ending, rinsing = apart(await self._ask(closing + _KEEP_ALL + b";" + rinse(locks=self.locks)))
        _checked(self, ending)
        self.held = False
        self.unclean |= not is_clean(rinsing)

    async def drop(self) -> bool:
        """See `HoldableConnection.drop`."""
        self.held = False
        try:
            rinsing = rinse(locks=self.locks)
            is_open = self.pgconn.transaction_status in _IN_TRANSACTION
            await self._exchange(b"ROLLBACK;" + rinsing if is_open else rinsing)
        except psycopg.Error:
            return False
        return self.prepared is not _HALF_PREPARED and self.pgconn.transaction_status == _IDLE

    async def rinse(self) -> None:
        """See `HoldableConnection.rinse`."""
        try:
            self.unclean |= not is_clean(await self._ask(rinse(locks=self.locks)))
        except psycopg.Error:
            self.unclean = True

    async def commit(self) -> None:
        """See `HoldableConnection.commit`."""
        if self.held:
            await self._exchange(_KEEP_SO_FAR)
        else:
            await super().commit()

    async def rollback(self) -> None:
        """See `HoldableConnection.rollback`."""
        if self.held:
            await self._exchange(_DROP_SO_FAR)
        elif self.pgconn.transaction_status != _IDLE:
            await super().rollback()

    async def _exchange(self, query: bytes) -> list[PGresult]:
        return _checked(self, await self._ask(query))

    async def _ask(self, query: bytes) -> list[PGresult]:
        async with self.lock:
            self.pgconn.send_query(query)
            return await self.wait(generators.execute(self.pgconn))

    def _deallocate(self, name: bytes | None) -> PQGen[None]:
        yield from super()._deallocate(name)
        if name is None:
            yield from _prepared_again(self)


def hung_up(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Say whether the server has closed an idle connection; asks the socket, not the server, in a microsecond.

    What a server says unasked is that it goes, or so rare (a changed parameter) that a new connection costs nothing.
    """
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.pgconn.socket, select.POLLIN)
    return bool(poll.poll(0))


def driver_of(connection: sa.Connection) -> HoldableConnection:
    """Return the driver's connection under SQLAlchemy's; `Database` opens no other kind."""
    return cast("HoldableConnection", connection.connection.driver_connection)


async def async_driver_of(connection: AsyncConnection) -> AsyncHoldableConnection:
    """Do the same on the event loop."""
    return cast("AsyncHoldableConnection", (await connection.get_raw_connection()).driver_connection)


def _prepared_again(connection: HoldableConnection | AsyncHoldableConnection) -> PQGen[None]:
    """Prepare what `hold` counts on after `DEALLOCATE ALL`.

    psycopg prepares by itself what comes often, and lets go of that so after a rollback or a DROP.
    """
    prepare = connection.prepared
    if prepare is not None and prepare is not _HALF_PREPARED:
        connection.prepared = _HALF_PREPARED
        connection.pgconn.send_query(prepare)
        _checked(connection, (yield from generators.execute(connection.pgconn)))
        connection.prepared = prepare


def _opened(limit: bytes, opening: bytes) -> bytes:
    return b"BEGIN;" + limit + opening + b";" + _MARK


def _time_limit(connection: HoldableConnection | AsyncHoldableConnection) -> bytes:
    """Return the statement that limits the transaction's others to what the job has left; empty where none is needed.

    The server ends a statement then also when this process is frozen or gone. In a thread it is what lets the job go,
    for nothing interrupts psycopg.
    """
    left_s, usual_s = time_left_s(), connection.statement_timeout_s
    if left_s is None or usual_s is None or left_s >= usual_s:
        return b""
    return b"SET LOCAL statement_timeout=%d;" % ((max(0.0, left_s) + _SERVER_S) * 1000)


def _patience_s(connection: HoldableConnection, timeout_s: float | None) -> float | None:
    """Return how long an answer is waited for; the server, which ends the statement in time, gets a moment more."""
    usual_s = connection.answer_within_s
    if timeout_s is not None:
        return timeout_s
    left_s = time_left_s()
    if left_s is None or usual_s is None or left_s + _ANSWER_S >= usual_s:
        return usual_s
    return max(left_s, 0.0) + _ANSWER_S


def _checked(connection: HoldableConnection | AsyncHoldableConnection, results: list[PGresult]) -> list[PGresult]:
    for result in results:
        if result.status in FAILED:
            error = error_from_result(result, encoding=connection.info.encoding)
            connection.unclean |= has_other_names(error)
            if isinstance(error, _NO_SAVEPOINT):
                raise TransactionEnded(_BY_SQL) from error
            raise error
    return results


def _not_ours(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> Exception:
    if connection.closed or connection.broken:
        return DatabaseLost("the connection was lost while the job ran")
    return TransactionEnded(_BY_SQL)
