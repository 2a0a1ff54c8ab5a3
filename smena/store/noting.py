"""Note what a job's statements do to its session, as far as the rinse has to know it.

Advisory locks are let go of only where a statement spoke of them, for that costs; and names of prepared statements that
came or went leave a session unclean, for no statement undoes that.
"""

from __future__ import annotations

from typing import Any, NoReturn, Protocol, cast

import psycopg
from psycopg._cursor_base import BaseCursor
from psycopg._queries import PostgresQuery
from psycopg.abc import Params, Query
from psycopg.pq.abc import PGresult

from smena.store.faults import has_other_names
from smena.store.rinse import changes_names, may_lock


class Noted(Protocol):
    """A connection whose session is rinsed."""

    locks: bool
    """A statement spoke of advisory locks: from then on the session is rinsed of them too."""

    unclean: bool
    """The session is not for the next job."""


class _Noting(BaseCursor[Any, Any]):
    """What a cursor of either colour notes."""

    def _convert_query(self, query: Query, params: Params | None = None) -> PostgresQuery:
        converted = super()._convert_query(query, params)
        if may_lock(converted.query):
            cast("Noted", self._conn).locks = True
        return converted

    def _set_results(self, results: list[PGresult]) -> None:
        super()._set_results(results)
        if changes_names(results):
            cast("Noted", self._conn).unclean = True

    def _raise_for_result(self, result: PGresult) -> NoReturn:
        try:
            super()._raise_for_result(result)
        except psycopg.Error as error:
            if has_other_names(error):
                cast("Noted", self._conn).unclean = True
            raise


class NotingCursor(_Noting, psycopg.Cursor[Any]):
    """A cursor that notes."""


class NotingAsyncCursor(_Noting, psycopg.AsyncCursor[Any]):
    """The same for a connection on the event loop."""
