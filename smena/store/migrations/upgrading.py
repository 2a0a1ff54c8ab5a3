"""Upgrade, check and list: Smena's own folder first, then the others in the order given.

One upgrades at a time, under an advisory lock of the database. It is asked for again and again rather than
waited for inside the server: a session that waits there holds a snapshot, and a migration that builds an index
concurrently waits for all snapshots; the two would wait for each other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from psycopg import Connection
from psycopg.conninfo import make_conninfo

from smena.clock import SYSTEM, Clock, Deadline
from smena.errors import DatabaseBusy
from smena.store.database import libpq_url
from smena.store.faults import translated
from smena.store.migrations.folders import Folder, Part, Revision

OWN: Final = Path(__file__).parent

_LOCK: Final = 0x534D_454E_4100_0001
"""The advisory lock's number: "SMENA" in ASCII, then 1; one for the database, whatever folders are run."""

_ASK_EVERY_S: Final = 0.2


class MigrationBusy(DatabaseBusy):
    """Another process has been upgrading this database for too long."""

    code = "migration_busy"


@dataclass(frozen=True, slots=True)
class State:
    """How far one folder is in a database; ``unknown`` are revisions there which this build does not have."""

    folder: str
    applied: tuple[Revision, ...]
    pending: tuple[Revision, ...]
    unknown: tuple[str, ...] = ()

    def due(self, part: Part | None = None) -> tuple[Revision, ...]:
        """Return what an upgrade would run: all that is pending, or up to the last before-deploy one."""
        if part is not Part.BEFORE:
            return self.pending
        last = max((place for place, step in enumerate(self.pending, 1) if step.part is Part.BEFORE), default=0)
        return self.pending[:last]


def upgrade(
    url: str,
    folders: Sequence[str] = (),
    *,
    part: Part | None = None,
    wait_s: float = 120.0,
    clock: Clock = SYSTEM,
    sleep: Callable[[float], None] = time.sleep,
) -> list[tuple[str, Revision]]:
    """Run what is pending and return it as (folder, revision), nothing where all is done.

    ``part`` BEFORE stops at the last before-deploy revision. Raises `MigrationBusy` when another upgrade has
    not ended in ``wait_s``. Each revision commits by itself: after a failure the rest is still pending.
    """
    done: list[tuple[str, Revision]] = []
    with _connected(url) as connection, _alone(connection, Deadline.within(wait_s, clock), sleep):
        for folder in _folders(folders):
            due = _state(connection, folder).due(part)
            if due:
                folder.upgrade_to(connection, due[-1].id)
            done += [(folder.name, revision) for revision in due]
    return done


def check(url: str, folders: Sequence[str] = ()) -> list[State]:
    """Return how far each folder is, Smena's own first; changes nothing."""
    with _connected(url) as connection:
        return [_state(connection, folder) for folder in _folders(folders)]


def history(folders: Sequence[str] = ()) -> list[tuple[str, list[Revision]]]:
    """Return each folder's revisions, the oldest first; asks no database."""
    return [(folder.name, folder.chain()) for folder in _folders(folders)]


def _folders(further: Sequence[str]) -> list[Folder]:
    own = Folder(OWN)
    own.name = "smena"
    return [own, *(Folder(location) for location in further)]


def _state(connection: sa.Connection, folder: Folder) -> State:
    there = folder.applied(connection)
    connection.rollback()  # ends the reading; the upgrade begins transactions of its own
    chain = folder.chain()
    return State(
        folder.name,
        applied=tuple(step for step in chain if step.id in there),
        pending=tuple(step for step in chain if step.id not in there),
        unknown=tuple(sorted(there - {step.id for step in chain})),
    )


@contextmanager
def _connected(url: str) -> Iterator[sa.Connection]:
    """Lend a connection with no statement timeout; a lock on a busy table is waited for only shortly."""
    string = make_conninfo(libpq_url(url), application_name="smena db", options="-c lock_timeout=10s -c timezone=UTC")
    engine = sa.create_engine(
        "postgresql+psycopg://", creator=lambda: Connection.connect(string), poolclass=sa.NullPool
    )
    with translated(), engine.connect() as connection:
        yield connection


@contextmanager
def _alone(connection: sa.Connection, deadline: Deadline, sleep: Callable[[float], None]) -> Iterator[None]:
    while not connection.scalar(sa.select(sa.func.pg_try_advisory_lock(_LOCK))):
        connection.rollback()
        if deadline.passed():
            raise MigrationBusy("another upgrade is running")
        sleep(min(_ASK_EVERY_S, deadline.left_s()))
    connection.commit()
    try:
        yield
    finally:
        # Closing the connection would release it too, but a pooler between may keep that open.
        if not connection.invalidated:
            connection.rollback()
            connection.scalar(sa.select(sa.func.pg_advisory_unlock(_LOCK)))
            connection.commit()
