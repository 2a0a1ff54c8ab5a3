"""Change something only under one's term (guarantee 3).

A lease is a row: who holds it, until when, under which term. The term grows at every takeover and never
otherwise, so whatever a former holder still does under its old term can be told from the holder's work.
All times are the database's.

A change is fenced by `fence`, the *last* statement before its commit. It locks the lease's row `FOR KEY SHARE`:
a takeover, which changes the key (name, term), waits for that commit; the holder's own renewal, which does not,
passes. Zero rows mean that the takeover was first: `TermLost`, and the transaction is rolled back. One that is not
committed within two seconds of its fence is ended by the server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session

from smena.errors import TermLost


@dataclass(frozen=True, slots=True)
class Term:
    """One holder's time with a lease. ``owner`` is a random id per boot, never a name (P32)."""

    lease: str
    owner: str
    number: int


# `clock_timestamp()`, not `now()`: a statement that waited for a lock must not compare with a time before it.
_TAKE: Final = sa.text("""
INSERT INTO smena.leases AS l (name, owner, term, expires_at)
VALUES (:lease, :owner, 1, clock_timestamp() + make_interval(secs => :lease_s))
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, term = l.term + 1, expires_at = excluded.expires_at
WHERE l.expires_at <= clock_timestamp()
RETURNING term
""")
# A holder known to be gone is not waited for. The row must still be his: of several successors one comes first.
_SUCCEED: Final = sa.text("""
UPDATE smena.leases
SET owner = :owner, term = term + 1, expires_at = clock_timestamp() + make_interval(secs => :lease_s)
WHERE name = :lease AND owner = :gone AND term = :number
RETURNING term
""")
_ENTER: Final = sa.text("""
INSERT INTO smena.leases AS l (name, owner, term, expires_at)
VALUES (:lease, :owner, :number, clock_timestamp() + make_interval(secs => :lease_s))
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, term = excluded.term, expires_at = excluded.expires_at
WHERE l.term < excluded.term
RETURNING term
""")
# Under a new term that is nobody's: what the former holder has begun is refused from now on.
_DEPOSE: Final = sa.text("""
UPDATE smena.leases SET owner = NULL, term = term + 1, expires_at = clock_timestamp() WHERE name = :lease RETURNING term
""")
_LAST: Final = sa.text("SELECT term FROM smena.leases WHERE name = :lease")
_OURS: Final = "WHERE name = :lease AND owner = :owner AND term = :number"
_RENEW: Final = sa.text(
    f"UPDATE smena.leases SET expires_at = clock_timestamp() + make_interval(secs => :lease_s) {_OURS}"  # noqa: S608
)
_RELEASE: Final = sa.text(f"UPDATE smena.leases SET expires_at = clock_timestamp() {_OURS}")  # noqa: S608 - constants
# Between this and the commit lies nothing but the commit: a process that is frozen there must not hold a takeover up
# for as long as a transaction may be idle elsewhere (measured: 25 s in place of the lease).
_FENCE: Final = sa.text("""
SELECT set_config('idle_in_transaction_session_timeout', '2s', true)
FROM smena.leases WHERE name = :lease AND term = :number FOR KEY SHARE
""")


def take(connection: sa.Connection, lease: str, owner: str, lease_s: float) -> Term | None:
    """Take a lease that is free or has run out, under a new term; None while another's lasts."""
    number = connection.scalar(_TAKE, {"lease": lease, "owner": owner, "lease_s": lease_s})
    return None if number is None else Term(lease, owner, number)


def succeed(connection: sa.Connection, gone: Term, owner: str, lease_s: float) -> Term | None:
    """Take a lease from a holder that is known to be gone, under a new term; None if another came first."""
    given = {"lease": gone.lease, "gone": gone.owner, "number": gone.number, "owner": owner, "lease_s": lease_s}
    number = connection.scalar(_SUCCEED, given)
    return None if number is None else Term(gone.lease, owner, number)


def last(connection: sa.Connection, lease: str) -> int:
    """Return the greatest term that a lease ever had; 0 for one that nobody had."""
    return int(connection.scalar(_LAST, {"lease": lease}) or 0)


def enter(connection: sa.Connection, term: Term, lease_s: float) -> bool:
    """Write down a term that was won elsewhere; False if it is not greater than what stands there."""
    return connection.scalar(_ENTER, _named(term) | {"lease_s": lease_s}) is not None


def renew(connection: sa.Connection, term: Term, lease_s: float) -> None:
    """Make the lease last ``lease_s`` from now; raises `TermLost`.

    One that has run out and that nobody took is still ours: its term has not ended.
    """
    if connection.execute(_RENEW, _named(term) | {"lease_s": lease_s}).rowcount == 0:
        raise TermLost(lease=term.lease, term=term.number)


def release(connection: sa.Connection, term: Term) -> None:
    """Let the lease run out now; nothing if it is not ours any more."""
    connection.execute(_RELEASE, _named(term))


def depose(connection: sa.Connection, lease: str) -> int | None:
    """End a lease whoever holds it; return the term that is nobody's now, or None where there is no such lease."""
    number: int | None = connection.scalar(_DEPOSE, {"lease": lease})
    return number


def fence(within: sa.Connection | Session, term: Term) -> None:
    """Let the transaction go on to its commit only under this term; raises `TermLost`."""
    if within.execute(_FENCE, _named(term)).first() is None:
        raise TermLost(lease=term.lease, term=term.number)


async def afence(within: AsyncConnection | AsyncSession, term: Term) -> None:
    """Do the same on the event loop."""
    if (await within.execute(_FENCE, _named(term))).first() is None:
        raise TermLost(lease=term.lease, term=term.number)


def _named(term: Term) -> dict[str, Any]:
    return {"lease": term.lease, "owner": term.owner, "number": term.number}
