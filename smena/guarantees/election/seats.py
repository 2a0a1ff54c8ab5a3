"""See who leads what, and take a leadership away: what an operator does, by the rows of the leases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from smena.guarantees.election.contract import PREFIX, lease_of
from smena.store import terms
from smena.store.database import Database

_ALL: Final = sa.text("""
SELECT name, owner, term, extract(epoch FROM expires_at - clock_timestamp())::float8 AS left_s
FROM smena.leases WHERE starts_with(name, :prefix) ORDER BY name
""")


@dataclass(frozen=True, slots=True)
class Seat:
    """One leadership: its owner's id (`new_owner`), its term, and how long it lasts unless it is renewed."""

    duty: str
    owner: str | None
    term: int
    left_s: float

    @property
    def is_held(self) -> bool:
        """Say whether somebody leads."""
        return self.owner is not None and self.left_s > 0


def seats(database: Database) -> list[Seat]:
    """Return all leaderships that ever were, by name."""
    with database.transaction() as connection:
        rows = connection.execute(_ALL, {"prefix": PREFIX}).all()
    return [Seat(row.name.removeprefix(PREFIX), row.owner, row.term, row.left_s) for row in rows]


def depose(database: Database, duty: str) -> int | None:
    """End a leadership under a term that is nobody's; return that, or None where there never was one.

    The fence refuses the former leader from this moment on; it stops at its next renewal, and another leads.
    """
    with database.transaction() as connection:
        return terms.depose(connection, lease_of(duty))
