"""Give a session back as it was opened: what one job left in it is not the next one's.

A job that is lent a connection may change more than rows: `SET`, `SET ROLE`, `LISTEN`, session advisory locks,
temporary tables, cursors WITH HOLD. None of that ends with a transaction, and all of it would reach whoever is lent
the connection next. Which job did so cannot be told from its statements, for a function, a trigger or a view may do
it: so every session is rinsed, by statements that travel behind the COMMIT or the ROLLBACK and cost no exchange of
their own (docs/adr/a-session-ends-with-its-job.md).
"""

from __future__ import annotations

from typing import Final

from psycopg import pq
from psycopg.pq.abc import PGresult

_RINSE: Final = b"RESET SESSION AUTHORIZATION;RESET ROLE;RESET ALL;CLOSE ALL;UNLISTEN *;DISCARD TEMP"
"""What `DISCARD ALL` does, but for prepared statements: ours and psycopg's stay. `RESET ROLE` comes back to the role
that the connection was opened with, whatever the reset of the authorization made of it."""

_UNLOCK: Final = b";SELECT pg_catalog.pg_advisory_unlock_all()"
"""A query, three times as dear as all the rest: only for who has asked for such a lock."""

FAILED: Final = frozenset({pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE})
_ENDS: Final = frozenset({b"COMMIT", b"ROLLBACK"})
_NAMES: Final = frozenset({b"PREPARE", b"DEALLOCATE", b"DEALLOCATE ALL"})


def rinse(*, locks: bool) -> bytes:
    """Return the statements; ``locks`` says that the session may hold advisory locks."""
    return _RINSE + _UNLOCK if locks else _RINSE


def may_lock(query: bytes) -> bool:
    """Say whether a statement's text speaks of advisory locks."""
    return b"advisory" in query.lower()


def apart(results: list[PGresult]) -> tuple[list[PGresult], list[PGresult]]:
    """Return the results up to the transaction's end, and those of the rinse behind it.

    What has committed has, whatever came of the rinse.
    """
    for place, result in enumerate(results, 1):
        if result.command_status in _ENDS:
            return results[:place], results[place:]
    return results, []


def is_clean(rinsing: list[PGresult]) -> bool:
    """Say whether the rinse went through; the server stops at what fails."""
    return bool(rinsing) and rinsing[-1].status not in FAILED


def changes_names(results: list[PGresult]) -> bool:
    """Say whether statements of a job have named prepared statements or dropped some, which no rinse puts right."""
    return any(result.command_status in _NAMES for result in results)
