"""One sentence for an operator where a database does not do what a command or a process asks of it.

A command imports it only when it has failed: the drivers it knows are heavy.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from sqlalchemy.exc import DBAPIError, ProgrammingError

from smena.errors import Misconfigured
from smena.store.faults import first_line, translate

_REFUSALS: Final = ("42", "3F")
"""Classes of SQLSTATE: not there, not allowed, not SQL; and a schema that is not there."""


@contextmanager
def refusals() -> Iterator[None]:
    """Raise as `Misconfigured` what the database refuses for want of a right, a table or a schema."""
    try:
        yield
    except ProgrammingError as error:
        raise Misconfigured(sentence(error) or first_line(error)) from error


def sentence(error: Exception) -> str | None:
    """Return what to tell of ``error``, or None where it is a fault of ours and its traceback says more."""
    known = translate(error)
    if known is not None:
        return str(known)
    driver = error.orig if isinstance(error, DBAPIError) else error
    if not isinstance(driver, psycopg.Error) or (driver.sqlstate or "")[:2] not in _REFUSALS:
        return None
    first_line = str(driver).partition("\n")[0]
    if _is_old_schema(driver, first_line):
        return f"The database has not the tables of this build; run `smena db upgrade`: {first_line}"
    return f"PostgreSQL refuses: {first_line}"


def _is_old_schema(error: psycopg.Error, first_line: str) -> bool:
    missing = (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn, psycopg.errors.InvalidSchemaName)
    return isinstance(error, missing) and "smena" in first_line
