"""The ground on which all systems meet: one broker, one database, one folder, and nothing of the caller's settings."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from benchmarks import broker
from benchmarks.peers.bare_psycopg import TABLES
from benchmarks.proof import ENVIRONMENT
from benchmarks.systems import System
from smena.store import migrations
from workers.local.services import VARIABLES, LocalServices

_OURS = ("SMENA_", "BENCH_", "dramatiq_")


@dataclass(frozen=True, slots=True)
class Ground:
    """Where a bench runs. ``folder`` is temporary: proofs, logs, and the working directory of all processes."""

    amqp_url: str
    database_url: str
    folder: Path

    def log(self, system: System) -> Path:
        """Return the file that a system's processes write to."""
        return self.folder / f"{system.name}.log"

    def environment(self, system: System, proof: Path | None = None, prefetch: int | None = None) -> dict[str, str]:
        """Return the environment of a system's worker or sender; settings of the caller's do not count."""
        values = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        values |= {
            "SMENA_AMQP_URL": self.amqp_url,
            "SMENA_DATABASE_URL": self.database_url,
            "SMENA_SUPERVISOR_METRICS_PORT": "0",
            "SMENA_SUPERVISOR_STATE_DIR": str(self.folder / "state"),
            **system.environment,
        }
        if proof is not None:
            values[ENVIRONMENT] = str(proof)
        if prefetch is not None:
            values[system.prefetch_env] = str(prefetch)
        return values

    def database(self) -> psycopg.Connection[Any]:
        """Connect to the bench's own database."""
        return psycopg.connect(self.database_url)

    def empty(self, *tables: str) -> None:
        """Empty tables of the bench's own database."""
        with self.database() as connection:
            connection.execute(f"TRUNCATE {', '.join(tables)}".encode())

    def is_settled(self, system: System) -> bool:
        """Say whether the system's queues hold nothing."""
        return all(broker.is_settled(self.amqp_url, queue) for queue in system.queues())

    def is_taken(self, system: System) -> bool:
        """Say whether nothing in the system's queues waits to be taken."""
        return all(broker.is_taken(self.amqp_url, queue) for queue in system.queues())

    def purge(self, system: System) -> None:
        """Empty the system's queues."""
        for queue in system.queues():
            broker.purge(self.amqp_url, queue)

    def take_all(self, system: System) -> list[int]:
        """Take everything out of the system's queue."""
        return broker.take_all(self.amqp_url, system.queue)

    def forget(self, system: System) -> None:
        """Delete the system's queues and those that it made beside."""
        for queue in system.queues():
            for suffix in ("", ".DQ", ".XQ", ".dead", ".delay", ".dead_letter"):
                broker.delete(self.amqp_url, queue + suffix)


@contextmanager
def prepared() -> Iterator[Ground]:
    """Start what local services are not up, make a database, and leave neither behind."""
    services = LocalServices(Path(os.environ.get("SMENA_LOCAL_DIR") or ".smena"))
    all_given = all(os.environ.get(variable) for variable in VARIABLES.values())
    started = [] if all_given else services.up()  # with nothing to start, no folder is made for it
    try:
        env = services.env()
        with (
            _database(env["SMENA_DATABASE_URL"]) as database_url,
            tempfile.TemporaryDirectory(prefix="bench-") as folder,
        ):
            yield Ground(env["SMENA_AMQP_URL"], database_url, Path(folder))
    finally:
        if started:
            services.down()


@contextmanager
def _database(server_url: str) -> Iterator[str]:
    name = f"bench_{os.urandom(4).hex()}"
    with psycopg.connect(server_url, autocommit=True) as server:
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        url = urlunsplit(urlsplit(server_url)._replace(path=f"/{name}"))
        migrations.upgrade(url)
        with psycopg.connect(url) as connection:
            connection.execute(TABLES.encode())
        yield url
    finally:
        with psycopg.connect(server_url, autocommit=True) as server:
            server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
