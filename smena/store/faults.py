"""Translate what PostgreSQL, Redis and their drivers raise into the taxonomy.

Only operational failures are translated: those that pass by themselves. A constraint that a job breaks, a
type that does not fit, a statement that does not parse stay what they are, because nobody but the job's
author can say what they mean; settle treats them as unexpected.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from sqlalchemy import exc as sa_exc

from smena.errors import CacheLost, DatabaseBusy, DatabaseLost, SmenaError

LOST_STATES: Final = frozenset({
    "57P01",  # admin_shutdown
    "57P02",  # crash_shutdown
    "57P03",  # cannot_connect_now: starting up or in recovery
    "57P04",  # database_dropped
    "57P05",  # idle_session_timeout
    "25P03",  # idle_in_transaction_session_timeout
    "25P04",  # transaction_timeout (17 and newer)
    "25006",  # read_only_sql_transaction: after a failover this is the old primary
})  # fmt: skip
LOST_CLASSES: Final = frozenset({"08"})
"""SQLSTATE class 08 is connection exceptions."""

_NAME_STATES: Final = frozenset({"26000", "42P05"})
"""A prepared statement is not there, or is there already: invalid_sql_statement_name, duplicate_prepared_statement."""

_NAMES: Final = ("smena_", "_pg3_")
"""How the names begin of what Smena and psycopg prepare; a job that deallocates takes those away too."""

BUSY_STATES: Final = frozenset({
    "55P03",  # lock_not_available
    "57014",  # query_canceled: statement timeout, or an operator's cancel
    "58030",  # io_error
})  # fmt: skip
BUSY_CLASSES: Final = frozenset({"40", "53"})
"""Class 40 is rollbacks (deadlock, serialization), class 53 is insufficient resources."""


def translate(error: BaseException) -> SmenaError | None:
    """Return the error of the taxonomy that stands for ``error``, or None where there is none.

    The caller raises it ``from error``. An error that is of the taxonomy already comes back as itself.
    """
    if isinstance(error, SmenaError):
        return error
    if isinstance(error, sa_exc.TimeoutError):
        return DatabaseBusy("no free connection in the pool")
    if isinstance(error, sa_exc.DBAPIError):
        if error.connection_invalidated:
            return DatabaseLost(first_line(error.orig or error))
        error = error.orig or error
    return _of_driver(error) if isinstance(error, psycopg.Error) else _of_cache(error)


@contextmanager
def translated() -> Iterator[None]:
    """Raise driver errors of the block as errors of the taxonomy, where it has one for them."""
    try:
        yield
    except Exception as error:
        known = translate(error)
        if known is None or known is error:
            raise
        raise known from error


def is_lost(error: BaseException) -> bool:
    """Say whether the connection is gone, so that only a new one can help."""
    return isinstance(translate(error), DatabaseLost)


def _of_driver(error: psycopg.Error) -> SmenaError | None:
    state = error.sqlstate
    if state is None:
        # No answer of a server stands behind it: refused, timed out, cut, or closed under us.
        return DatabaseLost(first_line(error)) if isinstance(error, psycopg.OperationalError) else None
    if state in LOST_STATES or state[:2] in LOST_CLASSES or has_other_names(error):
        return DatabaseLost(first_line(error), sqlstate=state)
    if state in BUSY_STATES or state[:2] in BUSY_CLASSES:
        return DatabaseBusy(first_line(error), sqlstate=state)
    return None


def has_other_names(error: psycopg.Error) -> bool:
    """Say whether the session has not the prepared statements that it had: whoever meets that has not done it."""
    return error.sqlstate in _NAME_STATES and any(f'"{name}' in str(error) for name in _NAMES)


def _of_cache(error: BaseException) -> SmenaError | None:
    """Know the errors of Redis where somebody has imported its client: to import it takes a tenth of a second."""
    if "redis.exceptions" not in sys.modules:
        return None
    from redis import exceptions as redis_errors  # loaded already: nothing is opened where a process is out of files

    passes = (
        redis_errors.ConnectionError,  # refused, cut, loading its data
        redis_errors.TimeoutError,
        redis_errors.ReadOnlyError,  # after a failover this is the old primary
        redis_errors.MasterDownError,
        redis_errors.ClusterDownError,
        redis_errors.TryAgainError,
        redis_errors.OutOfMemoryError,
    )
    # A wrong password is a lost connection to the driver, but it does not pass by itself.
    stays = (redis_errors.AuthenticationError, redis_errors.AuthorizationError)
    return CacheLost(first_line(error)) if isinstance(error, passes) and not isinstance(error, stays) else None


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text: what follows (context, detail) can quote rows."""
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__
