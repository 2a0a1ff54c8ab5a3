"""Set the demo's stage: services of its own, empty at the start, in a folder of its own.

The folder is ``demo`` below `SMENA_LOCAL_DIR` (below ``.smena`` of the checkout without it). Each run begins
by clearing what an earlier one left there, so a run never meets another's rows or messages. Services whose
addresses the environment gives are used instead; there the run takes a queue prefix of its own, and refuses a
database that holds a shop's orders already.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg

from smena.errors import Refused
from workers.drills.queues import QueueView
from workers.local.services import LocalServices

BOOKS: Final = "actors.sales,actors.payments,actors.mail,actors.receipts"
MIGRATIONS: Final = "actors:migrations"
QUEUES: Final = ("sales", "payments", "mail", "receipts")

_CHECKOUT: Final = Path(__file__).resolve().parent.parent.parent


class StageNotFree(Refused):
    """The demo has no stage to play on."""


class Stage:
    """The services and folders of one run."""

    def __init__(self, environ: dict[str, str]) -> None:
        self._environ = environ
        self.folder = Path(environ.get("SMENA_LOCAL_DIR") or _CHECKOUT / ".smena").absolute() / "demo"
        self.services = LocalServices(self.folder / "services", environ)
        self.files = self.folder / "run"
        self.state_dir = self.files / "state"
        self.event_log = self.files / "events.jsonl"
        self.mail_log = self.files / "mails.jsonl"
        self.receipts = self.files / "receipts"
        self._broker_is_given = bool(environ.get("SMENA_AMQP_URL"))
        self.prefix = f"shop-{uuid.uuid4().hex[:8]}" if self._broker_is_given else "smena"

    @contextmanager
    def set(self, *, keep: bool) -> Iterator[None]:
        """Have services and empty folders for the block; with ``keep`` they stay up after it."""
        with self._alone():
            self.services.down()
            shutil.rmtree(self.folder, ignore_errors=True)
            self.files.mkdir(parents=True)
            try:
                self.services.up()
                yield
            finally:
                if not keep:
                    self._strike()

    def env(self, mail_url: str, processes: int) -> dict[str, str]:
        """Return the environment in which all programs of the run are started."""
        return {
            **self._environ,
            **self.services.env(),
            "SMENA_AMQP_PREFIX": self.prefix,
            "SMENA_BOOKS": BOOKS,
            "SMENA_MIGRATIONS": MIGRATIONS,
            "SMENA_APP_MAIL_URL": mail_url,
            "SMENA_APP_RECEIPTS_DIR": str(self.receipts),
            "SMENA_WORKER_PROCESSES": str(processes),
            "SMENA_SUPERVISOR_STATE_DIR": str(self.state_dir),
            "SMENA_SUPERVISOR_METRICS_PORT": "0",
            "SMENA_TELEMETRY_LOG_FILE": str(self.event_log),
        }

    @property
    def amqp_url(self) -> str:
        """Return the broker's address; of several, the first."""
        return self.services.env()["SMENA_AMQP_URL"].partition(",")[0]

    @property
    def database_url(self) -> str:
        """Return the database's address."""
        return self.services.env()["SMENA_DATABASE_URL"]

    def require_empty_shop(self, connection: psycopg.Connection) -> None:
        """Refuse a database in which a shop has orders or sales: the verdict would judge two runs as one."""
        [(orders, sales)] = connection.execute(
            "SELECT EXISTS (SELECT FROM shop.orders), EXISTS (SELECT FROM shop.sales)"
        ).fetchall()
        if orders or sales:
            raise StageNotFree(
                "the database given by SMENA_DATABASE_URL holds a run already; give the demo an empty one"
            )

    def how_to_look(self) -> str:
        """Say how to look at what was kept."""
        here = f"SMENA_LOCAL_DIR={self.services.root} ./run"
        return "\n".join(
            (
                f"kept      {self.files}  (event log, mail log, receipts, each program's output)",
                f"database  {self.database_url}  (schemas shop and smena)",
                f"look      {here} local status  (what runs, with the broker's management page)",
                f"          {here} shell  (knows the addresses; try `smena dead list`)",
                f"end       {here} local down",
            )
        )

    def _strike(self) -> None:
        if self._broker_is_given:
            depths = QueueView(self.amqp_url, self.prefix, QUEUES)
            depths.delete_all()
            depths.close()
        self.services.down()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        held = os.open(self.folder.parent / "demo.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StageNotFree(f"another demo runs in {self.folder}") from None
        else:
            yield
        finally:
            os.close(held)
