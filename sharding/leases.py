"""Hold leases of partitions: rows of `smena.leases`, many in one statement.

What `smena/store/terms.py` says of one lease holds for these: a term only grows, all times are the database's, and
a write under a term ends with `terms.fence`. What differs: a claim waits for nobody (a row that is locked by a
fence is left for the next round), and a release takes the owner's name away, so that a renewal that is still
under way cannot bring the lease back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import psycopg
from psycopg.rows import class_row

from smena.store.terms import Term

# Rows are locked in the order of their names wherever several are: two such statements never wait for each other.
_CLAIM: Final = b"""
WITH free AS (
    SELECT name FROM smena.leases WHERE name = ANY(%(names)s) AND expires_at <= clock_timestamp()
    ORDER BY name FOR UPDATE SKIP LOCKED
)
UPDATE smena.leases AS l
SET owner = %(owner)s, term = l.term + 1, expires_at = clock_timestamp() + make_interval(secs => %(lease_s)s)
FROM free WHERE l.name = free.name
RETURNING l.name, l.term
"""
_MINE: Final = """
WITH mine AS (
    SELECT l.name FROM smena.leases AS l
    JOIN unnest(%(names)s::text[], %(numbers)s::bigint[]) AS held (name, number)
    ON l.name = held.name AND l.term = held.number
    WHERE l.owner = %(owner)s
    ORDER BY l.name FOR NO KEY UPDATE OF l
)
"""
_RENEW: Final = f"""{_MINE}
UPDATE smena.leases AS l SET expires_at = clock_timestamp() + make_interval(secs => %(lease_s)s)
FROM mine WHERE l.name = mine.name
RETURNING l.name
""".encode()  # noqa: S608 - made of constants
_RELEASE: Final = f"""{_MINE}
UPDATE smena.leases AS l SET owner = NULL, expires_at = clock_timestamp()
FROM mine WHERE l.name = mine.name
""".encode()  # noqa: S608 - made of constants
_HELD: Final = b"""
SELECT name, owner, term, expires_at, owner IS NOT NULL AND expires_at > clock_timestamp() AS lasts
FROM smena.leases WHERE name LIKE %(like)s ORDER BY name
"""


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease as an operator sees it."""

    name: str
    owner: str | None
    term: int
    expires_at: datetime
    lasts: bool


def lease_name(group: str, partition: int) -> str:
    """Return the name of a partition's lease: `partition:stock:007`."""
    return f"partition:{group}:{partition:03}"


def claim(connection: psycopg.Connection[Any], names: Collection[str], owner: str, lease_s: float) -> list[Term]:
    """Take those of ``names`` that are free or have run out, each under a new term; wait for none."""
    values = {"names": sorted(names), "owner": owner, "lease_s": lease_s}
    return [Term(name, owner, number) for name, number in connection.execute(_CLAIM, values)]


def renew(connection: psycopg.Connection[Any], terms: Collection[Term], lease_s: float) -> set[Term]:
    """Make the leases last ``lease_s`` from now; return those that are still ours."""
    if not terms:
        return set()
    renewed = {name for (name,) in connection.execute(_RENEW, {**_named(terms), "lease_s": lease_s})}
    return {term for term in terms if term.lease in renewed}


def release(connection: psycopg.Connection[Any], terms: Collection[Term]) -> None:
    """Let them be taken at once; nothing for those that are not ours any more."""
    if terms:
        connection.execute(_RELEASE, _named(terms))


def held(connection: psycopg.Connection[Any], group: str) -> list[Lease]:
    """Return the leases of a group's partitions, the first partition first."""
    like = lease_name(group, 0).removesuffix("000").translate({ord(c): f"\\{c}" for c in "%_\\"}) + "%"
    with connection.cursor(row_factory=class_row(Lease)) as cursor:
        return sorted(cursor.execute(_HELD, {"like": like}).fetchall(), key=lambda lease: partition_in(lease.name))


def partition_in(name: str) -> int:
    """Return the number of the partition that a lease's name ends with."""
    return int(name.rpartition(":")[2])


def _named(terms: Collection[Term]) -> Mapping[str, Any]:
    """Return the statement's arrays; all terms are of one owner."""
    (owner,) = {term.owner for term in terms}
    return {
        "names": [term.lease for term in terms],
        "numbers": [term.number for term in terms],
        "owner": owner,
    }
