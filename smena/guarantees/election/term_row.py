"""Keep the row of a lease in PostgreSQL in step with an election that is held elsewhere.

The fence compares with the row, so a term counts only once it stands there. And the row is the floor of all terms: a
store that has forgotten its counter goes on above it, and so does one that takes over from another backend.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import sqlalchemy as sa

from smena.errors import TermLost, Transient
from smena.guarantees.election.aside import Aside
from smena.store import terms
from smena.store.database import Database
from smena.store.terms import Term

_RELEASE_S: Final = 2.0


class TermRow:
    """The row of one lease, as a backend's candidate uses it."""

    def __init__(self, database: Database, lease_name: str, lease_s: float) -> None:
        self.lease_name = lease_name
        self.lease_s = lease_s
        self._database = database
        self._aside = Aside()
        self._written_for: tuple[str, int] | None = None

    def floor(self) -> int:
        """Return the greatest term so far."""
        with self._database.transaction() as connection:
            return terms.last(connection, self.lease_name)

    def enter(self, owner: str, number: int) -> bool:
        """Write a term that was won; False where a greater one, or the same, stands there: it does not count then."""
        with self._database.transaction() as connection:
            return terms.enter(connection, Term(self.lease_name, owner, number), self.lease_s)

    def entered(self, owner: str, number: int, vacate: Callable[[], object]) -> bool:
        """Enter a term that was won; where it does not count, or cannot be written, ``vacate`` the seat again."""
        try:
            counts = self.enter(owner, number)
        except Exception:
            vacate()
            raise
        if not counts:
            vacate()
        return counts

    def renew(self, owner: str, number: int, within_s: float) -> None:
        """Write how long it lasts; raises `TermLost` where another term has begun.

        A database that cannot be reached, or says nothing within that time, ends no leadership that is held elsewhere:
        nobody can be entered in it either.
        """
        self._write(lambda connection, term: terms.renew(connection, term, self.lease_s), owner, number, within_s)

    def release(self, owner: str, number: int) -> None:
        """Write that it lasts no more, where that can be written soon; nothing if another term has begun."""
        with suppress(TermLost):  # what a renewal that went on aside has found
            self._write(terms.release, owner, number, _RELEASE_S)

    def _write(self, change: Callable[[sa.Connection, Term], None], owner: str, number: int, within_s: float) -> None:
        def write() -> None:
            with self._database.transaction() as connection:
                change(connection, Term(self.lease_name, owner, number))

        if self._written_for != (owner, number):
            self._written_for, self._aside = (
                (owner, number),
                Aside(),
            )  # what came of another term is nothing to this one
        try:
            self._aside.do(write, within_s)
        except TermLost:
            raise
        except Transient:
            return
