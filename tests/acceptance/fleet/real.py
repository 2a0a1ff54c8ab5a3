"""A grip on a fleet of real workers, with the test's own queues and database."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from smena.amqp.link import Connection, LinkThread
from smena.amqp.publisher import Publisher
from smena.clock import SYSTEM, Deadline
from smena.job import Job
from smena.lifecycle import Group
from smena.settings.groups import Amqp
from tests.acceptance.fleet.grip import ROOT, FleetGrip
from tests.acceptance.jobs import book, deaths, ground, late
from tests.fixtures.eventually import eventually


class RealFleet(FleetGrip):
    """`smena up` with the test's book; jobs are sent from here and effects read from the database."""

    def __init__(self, folder: Path, amqp: Amqp, database_url: str | None) -> None:
        super().__init__(folder)
        self._amqp = amqp
        self.database_url = database_url or ""
        link = LinkThread("test-link")
        connection = Connection(link, amqp, "test")
        self.publisher = Publisher(connection, amqp, SYSTEM)
        self._services = Group("test", (link, connection, self.publisher), lambda: Deadline.within(10, SYSTEM))
        self._services.start()
        if database_url is not None:
            with psycopg.connect(database_url) as database:
                database.execute(ground.CREATE)

    def up(self, *options: str, roles: str = "worker", processes: int = 1, **settings: object) -> None:
        """Start the fleet; ``settings`` are environment names without `SMENA_`, in lower case."""
        env = {
            **self.broker_settings(),
            "SMENA_BOOKS": ",".join(one.__name__ for one in (book, late, deaths)),
            "SMENA_WORKER_THREADS": "4",
            "SMENA_WORKER_PROCESSES": str(processes),
            "SMENA_SUPERVISOR_STATE_DIR": str(self.folder),
            "SMENA_SUPERVISOR_METRICS_PORT": "0",
            "SMENA_SUPERVISOR_KILL_GRACE_S": "1",
            "SMENA_TELEMETRY_LOG_FILE": str(self._log),
            "SMENA_APP_FOLDER": str(self.folder),
            **({} if not self.database_url else {"SMENA_DATABASE_URL": self.database_url}),
            **{f"SMENA_{name.upper()}": str(value) for name, value in settings.items()},
        }
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "workers.cli", "up", "--roles", roles, *options],
                cwd=ROOT,
                env={**os.environ, **env},
                stderr=errors,
                start_new_session=True,
            )

    def broker_settings(self) -> dict[str, str]:
        """Return the environment by which a process finds the test's queues."""
        return {
            "SMENA_AMQP_URL": ",".join(url.get_secret_value() for url in self._amqp.urls),
            "SMENA_AMQP_PREFIX": self._amqp.prefix,
        }

    def wait_ready_workers(self, count: int) -> dict[str, int]:
        """Wait until that many workers are ready; return their pids by post."""
        eventually(lambda: self.state().get("state") == "ready" and len(self.pids("worker")) == count)
        return self.pids("worker")

    def send(self, *jobs: Job) -> None:
        """Send jobs, each confirmed."""
        for error in self.publisher.send_many(jobs):
            if error is not None:
                raise error

    def retried(self) -> int:
        """Return how many attempts have failed so far."""
        return len(self.events("job.retried"))

    def effects(self) -> Counter[str]:
        """Return how often each key took effect."""
        return Counter(key for (key,) in self.rows("SELECT key FROM effects"))

    def rows(self, query: str) -> Sequence[tuple[Any, ...]]:
        """Return what a query of the test's database gives."""
        with psycopg.connect(self.database_url) as database:
            return database.execute(query.encode()).fetchall()

    def clear(self) -> None:
        """End the fleet and the test's own connection."""
        super().clear()
        self._services.stop(Deadline.within(10, SYSTEM))
