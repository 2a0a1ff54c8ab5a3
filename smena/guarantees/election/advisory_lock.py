"""Elect through PostgreSQL: the lease's row decides, a session's advisory lock makes a takeover fast.

Who stands for the seat makes up an owner's id and holds the advisory lock of that id on a connection of its own, for
as long as the id is used. So anybody can see whether the owner in the row is still there: its lock is free once its
process died, its connection ended or it gave up, and those that wait for that lock wake at that moment. An owner that
is there and silent (frozen, cut off without an end) loses the seat when the row has run out by the database's clock,
or when the row has not changed for a whole lease by the candidate's own clock, so that a database clock that is set
back prolongs nothing.

A lock that a pooler's server session holds says nothing about us (P41: two clients of one server session are both
given it, and it stays when they are gone). So the address must lead to the server itself: `PoolerBetween`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from smena.clock import Clock
from smena.errors import DatabaseBusy, DatabaseLost, TermLost
from smena.guarantees.election.contract import Reason, Unseated, lease_of, new_owner
from smena.store import terms
from smena.store.database import Database
from smena.store.faults import is_lost, translate
from smena.store.held import driver_of
from smena.store.pooler import PID, PoolerBetween, compare_pid
from smena.store.terms import Term

_ANSWER_S: Final = 2.0
"""What the server gets for its answer beyond what it may wait by itself."""

_KEY: Final = "hashtextextended('smena.leader.' || :owner, 0)"
_SETTING: Final = "leadership.database_url"
_STAND: Final = sa.text(f"SELECT set_config('smena.candidate', :owner, false), pg_advisory_lock({_KEY})")
_WITHDRAW: Final = sa.text(f"SELECT pg_advisory_unlock({_KEY})")
# Shared and to the statement's end: those who wait do not hinder each other. The limit holds for this statement only.
_WAIT: Final = sa.text(f"SELECT set_config('lock_timeout', :limit, true), pg_advisory_xact_lock_shared({_KEY})")
_SEE: Final = sa.text("""
SELECT owner, term, expires_at, extract(epoch FROM expires_at - clock_timestamp())::float8 AS left_s
FROM smena.leases WHERE name = :lease
""")
# The session must still be ours alone, and hold our lock.
_HOLDS: Final = sa.text(f"""
SELECT pg_backend_pid(), current_setting('smena.candidate', true) = :owner AND EXISTS (
    SELECT FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid() AND objsubid = 1
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND (classid::bigint << 32 | objid::bigint) = {_KEY}
)
""")  # noqa: S608 - a constant


@dataclass(frozen=True, slots=True)
class _Seat:
    """The row as it was last seen to change, and when that was on our own clock."""

    owner: str | None
    term: int
    expires_at: object
    since_s: float


class AdvisoryLockElection:
    """A seat in PostgreSQL; see the module's docstring."""

    def __init__(self, database: Database, duty: str, lease_s: float, clock: Clock) -> None:
        self.lease_name = lease_of(duty)
        self.lease_s = lease_s
        self._database = database
        self._clock = clock
        self._connection: sa.Connection | None = None
        self._owner = ""
        self._seen: _Seat | None = None
        self._term: Term | None = None

    def check(self) -> None:
        """See `Election`; raises `PoolerBetween`, and `DatabaseLost` where nobody can say."""
        with self._answered_within(_ANSWER_S):
            self._standing()

    def campaign(self, patience_s: float) -> int | None:
        """See `Election`; raises `PoolerBetween` where the address leads to a pooler."""
        with self._answered_within(patience_s + _ANSWER_S):
            connection = self._standing()
            self._term = self._taken(connection)
            if self._term is None and self._wait(connection, patience_s):
                self._term = self._taken(connection)
        return None if self._term is None else self._term.number

    def renew(self, within_s: float) -> None:
        """See `Election`."""
        term, connection = self._term, self._connection
        if term is None or connection is None:
            raise Unseated(reason=Reason.SESSION_LOST, lease=self.lease_name)
        try:
            with self._answered_within(within_s / 2):  # two answers
                terms.renew(connection, term, self.lease_s)
                self._check_session(connection)
        except DatabaseLost as error:
            raise Unseated(str(error), reason=Reason.SESSION_LOST, lease=self.lease_name) from error
        except TermLost as error:
            self._withdraw()
            raise Unseated(reason=Reason.TAKEN, lease=term.lease, term=term.number) from error

    def resign(self) -> None:
        """See `Election`: first the row, then the lock that others wait for."""
        try:
            with self._answered_within(_ANSWER_S):
                if self._connection is not None and self._term is not None:
                    terms.release(self._connection, self._term)
                self._withdraw()
        except (DatabaseLost, DatabaseBusy):
            self.close()  # the session's end says the same

    def close(self) -> None:
        """See `Election`."""
        connection, self._connection = self._connection, None
        self._owner, self._term, self._seen = "", None, None
        if connection is not None:
            connection.invalidate()  # closed for good, whatever state it is in
            connection.close()

    # --- The session ------------------------------------------------------------------------------

    def _standing(self) -> sa.Connection:
        """Return the connection that holds the lock of our owner's id."""
        if self._connection is None:
            self._connection = self._database.alone()
            self._refuse_pooler(self._connection)  # before a lock that it would keep
        if not self._owner:
            owner = new_owner()
            self._connection.execute(_STAND, {"owner": owner})
            self._owner = owner
        return self._connection

    def _check_session(self, connection: sa.Connection) -> None:
        pid, held = connection.execute(_HOLDS, {"owner": self._owner}).one()
        self._refuse_pooler(connection, pid)
        if not held:
            self.close()
            raise DatabaseLost("the session is not ours alone any more")

    def _refuse_pooler(self, connection: sa.Connection, pid: int | None = None) -> None:
        """Ask who answers, unless that is known; a pooler's session is not kept."""
        try:
            compare_pid(connection, connection.execute(PID).scalar_one() if pid is None else pid, _SETTING)
        except PoolerBetween:
            self.close()
            raise

    def _withdraw(self) -> None:
        owner, self._owner, self._term = self._owner, "", None
        if self._connection is not None and owner:
            self._connection.execute(_WITHDRAW, {"owner": owner})

    @contextmanager
    def _answered_within(self, limit_s: float) -> Iterator[None]:
        """Give the server that long for each answer; a lost session is closed, and all comes out translated."""
        try:
            if self._connection is not None:
                driver_of(self._connection).answer_within_s = limit_s
            yield
        except Exception as error:
            known = translate(error)
            if known is None or is_lost(known):
                self.close()
            raise (known or error) from error

    # --- The row ----------------------------------------------------------------------------------

    def _taken(self, connection: sa.Connection) -> Term | None:
        """Take the seat if it has run out, or if its owner is known to be gone."""
        taken = terms.take(connection, self.lease_name, self._owner, self.lease_s)
        if taken is not None:
            return taken
        seat = self._look(connection)
        if seat is None or seat.owner is None:
            return None
        if self._clock.monotonic() - seat.since_s >= self.lease_s or self._is_gone(connection, seat.owner, 0):
            gone = Term(self.lease_name, seat.owner, seat.term)
            return terms.succeed(connection, gone, self._owner, self.lease_s)
        return None

    def _look(self, connection: sa.Connection) -> _Seat | None:
        """Look at the row, and remember since when it stands so."""
        at_s = self._clock.monotonic()
        row = connection.execute(_SEE, {"lease": self.lease_name}).one_or_none()
        if row is None:
            return None
        seat, seen = _Seat(row.owner, row.term, row.expires_at, at_s), self._seen
        if seen is None or (seat.owner, seat.term, seat.expires_at) != (seen.owner, seen.term, seen.expires_at):
            self._seen = seat
        return self._seen

    def _wait(self, connection: sa.Connection, patience_s: float) -> bool:
        """Wait until the owner is gone; False where it is there after all that time."""
        seat = self._seen
        return seat is not None and seat.owner is not None and self._is_gone(connection, seat.owner, patience_s)

    def _is_gone(self, connection: sa.Connection, owner: str, patience_s: float) -> bool:
        limit_ms = max(1, round(patience_s * 1000))  # 0 would wait for ever
        try:
            connection.execute(_WAIT, {"owner": owner, "limit": f"{limit_ms}ms"})
        except sa.exc.DBAPIError as error:
            if isinstance(translate(error), DatabaseBusy):
                return False
            raise
        return True
