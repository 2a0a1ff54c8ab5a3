"""Where drills are held: one set of services for all of them, with the drills' own queues and tables.

The services are private ones, in the folder ``drill`` below `SMENA_LOCAL_DIR`, empty at the start (`Venue`). On servers
whose addresses are given it is a database and queues of their own, and nothing destructive is done there unless it is
named. Leases and timeouts are shortened, so that a
drill which waits for one takes seconds.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg

from smena.amqp import names
from smena.errors import SmenaError
from smena.settings import load
from workers.drills import ordered_book, tables
from workers.drills.book import QUEUE
from workers.drills.venue import Venue

SHORTENED: Final[Mapping[str, str]] = {
    "SMENA_AMQP_HEARTBEAT_S": "4",
    "SMENA_AMQP_PUBLISH_TIMEOUT_S": "2.5",
    "SMENA_AMQP_RECONNECT_CAP_S": "1",
    "SMENA_BATCHES_LEASE_S": "3",
    "SMENA_BATCHES_STALLED_S": "5",
    "SMENA_BATCHES_TURN_S": "0.5",
    "SMENA_BATCHES_SLICE_S": "0.3",
    "SMENA_DATABASE_IDLE_IN_TRANSACTION_S": "2.5",
    "SMENA_DATABASE_LOCK_TIMEOUT_S": "1",
    "SMENA_LEADERSHIP_LEASE_S": "4",
    "SMENA_LEADERSHIP_RETRY_S": "0.5",
    "SMENA_OUTBOX_LEASE_S": "3",
    "SMENA_OUTBOX_POLL_S": "0.25",
    "SMENA_RETRY_BASE_S": "0.2",
    "SMENA_RETRY_CAP_S": "1",
    "SMENA_SUPERVISOR_KILL_GRACE_S": "2",
    "SMENA_SUPERVISOR_RESTART_CAP_S": "1",
    "SMENA_WORKER_DRAIN_S": "10",
}
"""What differs from the defaults in every drill."""

_FIXED: Final[Mapping[str, str]] = {"SMENA_BOOKS": "workers.drills.book", "SMENA_WORKER_CONCURRENCY": "4"}
_PARTITIONS: Final = names.addresses([ordered_book.QUEUE], {ordered_book.QUEUE: ordered_book.PARTITIONS})
_SETUP_S: Final = 120.0


class NotSetUp(SmenaError):
    """The services could not be made ready for drills."""


class Stage(Venue):
    """The services and folders of one session of drills."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__("drill", environ, Path(".smena"), prefix="drill", queues=[QUEUE, *_PARTITIONS])

    @contextmanager
    def set(self, *, keep: bool) -> Iterator[None]:
        """Have services and tables for the block; with ``keep`` the services stay up after it."""
        with self.open(keep=keep):
            self._prepare()
            yield

    def environ(self) -> dict[str, str]:
        """Return the environment of every fleet on this stage."""
        return {**self.addresses(), **SHORTENED, **_FIXED}

    @property
    def database_url(self) -> str:
        """Return the database's address as psycopg reads it."""
        return load(env=self.environ()).database.libpq_url()

    def how_to_look(self) -> str:
        """Say how to look at what was kept, and how to remove it."""
        return "\n".join(
            (
                f"kept      {self.runs}  (each fleet's event log and standard error)",
                f"database  {self.database_url}  (schemas drill and smena)",
                *self.look_and_end("smena local status"),
            )
        )

    def _prepare(self) -> None:
        self._do("db", "upgrade")
        self._do("topology", "declare", QUEUE)
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            connection.execute(tables.CREATE)

    def _do(self, *arguments: str) -> None:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "workers.cli", *arguments],
            env={**self.addresses(), **_FIXED},  # nothing is drilled yet: with the usual times, not the shortened
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SETUP_S,
        )
        if done.returncode != 0:
            raise NotSetUp(f"smena {' '.join(arguments)} failed: {(done.stderr or done.stdout).strip()}")
