"""Find out whether a pooler stands between this process and PostgreSQL.

One that speaks the protocol itself greets its clients with a process id of its own making (PgBouncer does in all its
modes), and lends them server sessions that are not theirs alone. Then a session's locks, its prepared statements and
LISTEN are another client's too, and the limits that every session of Smena carries are not passed on.
"""

from __future__ import annotations

import sqlalchemy as sa

from smena.errors import Misconfigured
from smena.store.held import driver_of

PID = sa.text("SELECT pg_backend_pid()")


class PoolerBetween(Misconfigured):
    """A pooler stands between this process and PostgreSQL, so its sessions are not this process's."""

    code = "pooler_between"


def refuse_pooler(connection: sa.Connection, setting: str) -> None:
    """Raise `PoolerBetween` where another process answers than was announced; ``setting`` gave the address."""
    compare_pid(connection, connection.execute(PID).scalar_one(), setting)


def compare_pid(connection: sa.Connection, answered: int, setting: str) -> None:
    """Do the same with a process id that was asked for already."""
    announced = driver_of(connection).info.backend_pid
    if answered != announced:
        told = f"give {setting} the address of the server itself, not of a pooler"
        raise PoolerBetween(told, announced=announced, answered=answered)
