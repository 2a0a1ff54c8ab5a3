"""Where drills are held: one set of services for all of them, with the drills' own queues and tables.

The services are private ones, in the folder ``drill`` below `SMENA_LOCAL_DIR`, empty at the start. Services whose
addresses are given are used instead, under a queue prefix of the session's own; nothing destructive is done to them
unless it is named. Leases and timeouts are shortened, so that a drill which waits for one takes seconds.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg

import smena
from smena.errors import Refused, SmenaError
from smena.settings import load
from workers.drills import tables
from workers.drills.book import QUEUE
from workers.drills.queues import QueueView
from workers.local.services import VARIABLES, LocalServices

SHORTENED: Final[Mapping[str, str]] = {
    "SMENA_AMQP_HEARTBEAT_S": "4",
    "SMENA_AMQP_PUBLISH_TIMEOUT_S": "2.5",
    "SMENA_AMQP_RECONNECT_CAP_S": "1",
    "SMENA_DATABASE_IDLE_IN_TRANSACTION_S": "2.5",
    "SMENA_DATABASE_LOCK_TIMEOUT_S": "1",
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
_SETUP_S: Final = 120.0


class NotSetUp(SmenaError):
    """The services could not be made ready for drills."""


class StageTaken(Refused):
    """Other drills are being held there."""


class Stage:
    """The services and folders of one session of drills."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)
        self.folder = Path(environ.get("SMENA_LOCAL_DIR") or ".smena").absolute() / "drill"
        self.services = LocalServices(self.folder / "services", environ)
        self.runs = self.folder / "runs"
        self.given = sorted(name for name in VARIABLES.values() if environ.get(name))
        self.prefix = f"drill-{uuid.uuid4().hex[:8]}" if self.given else "drill"

    @contextmanager
    def set(self, *, keep: bool) -> Iterator[None]:
        """Have services, tables and a sender for the block; with ``keep`` the services stay up after it."""
        with self._alone():
            self.services.down()
            shutil.rmtree(self.folder, ignore_errors=True)
            self.runs.mkdir(parents=True)
            try:
                self.services.up()
                self._prepare()
                with smena.connect(load(env=self.environ())):
                    yield
            finally:
                if not keep:
                    self._strike()

    def environ(self) -> dict[str, str]:
        """Return the environment of every fleet on this stage."""
        return {**self._environ, **self.services.env(), "SMENA_AMQP_PREFIX": self.prefix, **SHORTENED, **_FIXED}

    @property
    def database_url(self) -> str:
        """Return the database's address as psycopg reads it."""
        return load(env=self.environ()).database.libpq_url()

    def queues(self) -> QueueView:
        """Return a fresh look at the broker's queues; the caller closes it."""
        return QueueView(self.services.env()["SMENA_AMQP_URL"].partition(",")[0], self.prefix, [QUEUE])

    def how_to_look(self) -> str:
        """Say how to look at what was kept."""
        here = f"SMENA_LOCAL_DIR={self.services.root} smena local"
        return "\n".join(
            (
                f"kept      {self.runs}  (each fleet's event log and standard error)",
                f"database  {self.database_url}  (schemas drill and smena)",
                f"look      {here} status",
                f"end       {here} down",
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
            env=self.environ(),
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SETUP_S,
        )
        if done.returncode != 0:
            raise NotSetUp(f"smena {' '.join(arguments)} failed: {(done.stderr or done.stdout).strip()}")

    def _strike(self) -> None:
        if "SMENA_AMQP_URL" in self.given:
            view = self.queues()
            view.delete_all()
            view.close()
        self.services.down()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        held = os.open(self.folder.parent / "drill.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StageTaken(f"other drills are held in {self.folder}") from None
        else:
            yield
        finally:
            os.close(held)
