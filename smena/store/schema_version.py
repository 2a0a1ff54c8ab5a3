"""Say whether this build can work on the schema that it finds.

Revisions of the schema `smena` are numbered from 1 and form one chain. A build needs the last of them that is
run *before* a deploy, and works on a schema that is newer by one: then the next build's migrations have run
and this build is being replaced. Read at every boot, so it knows two numbers in place of Alembic; a test holds
them equal to the chain.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from smena.errors import Misconfigured, SchemaTooOld

NEEDED: Final = 12
"""The newest before-deploy revision of this build."""

KNOWN: Final = 12
"""The newest revision of this build, after-deploy ones included."""

TABLE: Final = "version"


class SchemaTooNew(Misconfigured):
    """The database schema is newer than this build can know; deploy a newer build."""

    code = "schema_too_new"


def found(connection: sa.Connection) -> int:
    """Return the number of the database's revision, 0 where there is none."""
    if connection.scalar(sa.text(f"SELECT to_regclass('smena.{TABLE}')")) is None:
        return 0
    number = connection.scalar(sa.text(f"SELECT version_num FROM smena.{TABLE}"))  # noqa: S608 - a constant
    return int(number) if number else 0


def require(connection: sa.Connection) -> int:
    """Return the number of the database's revision; raise where this build cannot work on it."""
    number = found(connection)
    if number < NEEDED:
        raise SchemaTooOld(found=number, needed=NEEDED)
    if number > KNOWN + 1:
        raise SchemaTooNew(found=number, known=KNOWN)
    return number
