"""Give the election suite a store for each backend, candidates in this process, and holders in processes apart."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from signal import SIGCONT, SIGKILL, SIGSTOP
from typing import Any

import pytest
import sqlalchemy as sa

from smena.clock import SYSTEM, Clock, Deadline, SystemClock
from smena.guarantees.election.leadership import Leadership
from tests.fixtures.eventually import PATIENCE_S, eventually
from tests.fixtures.kubernetes_server import KubernetesServer
from workers.local.services import LocalServices

from .backends import BACKENDS, LEASE_S, election, opened, timing


class SteppedClock(SystemClock):
    """A machine's clock whose wall time is set by hand; its monotonic time goes on, as a kernel's does."""

    def __init__(self) -> None:
        self.ahead = timedelta(0)

    def now(self) -> datetime:
        """Return what the wall clock shows."""
        return super().now() + self.ahead


class Holder:
    """A process that leads and writes; see `holder.py`."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "tests.integration.election.holder", *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.said: list[str] = []
        self._reading = threading.Thread(target=self._read, name="holder's lines", daemon=True)
        self._reading.start()

    def leads(self) -> int:
        """Wait until it leads; return the term."""
        line = eventually(lambda: next((line for line in self.said if line.startswith("became")), ""))
        return int(line.split()[1])

    def send(self, signal: int) -> None:
        """Send a signal."""
        self._process.send_signal(signal)

    def kill(self) -> None:
        """End it at once."""
        self.send(SIGKILL)
        self._process.wait(PATIENCE_S)

    def freeze(self) -> None:
        """Let it stand still, and everything it had begun with it."""
        self.send(SIGSTOP)

    def thaw(self) -> None:
        """Let it go on as if nothing had been."""
        self.send(SIGCONT)

    def end(self) -> None:
        """Let it resign and end; kill it if it does not."""
        self.thaw()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE_S)
        finally:
            self._process.kill()
            self._process.wait(PATIENCE_S)
            self._reading.join(60)
            self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(line.strip())


class Ground:
    """One backend's store, and everybody who stands for the seat in it."""

    def __init__(self, backend: str, services: LocalServices, database_url: str, duty: str, ends: ExitStack) -> None:
        self.backend = backend
        self.duty = duty
        self.services = services
        self.database_url = database_url
        self.database = opened(database_url)
        self._kubernetes = KubernetesServer() if backend == "kubernetes" else None
        if self._kubernetes is not None:
            self._kubernetes.start()
            ends.callback(self._kubernetes.end)
        self._ends = ends
        ends.callback(self.database.close)
        with self.database.transaction() as connection:
            connection.execute(sa.text("CREATE TABLE effects (id bigserial, v text)"))

    @property
    def address(self) -> str:
        """Where the store is reached."""
        if self._kubernetes is not None:
            return self._kubernetes.address
        return self.database_url if self.backend == "postgresql" else self.services.env()["SMENA_REDIS_URL"]

    def candidate(
        self, address: str | None = None, lease_s: float = LEASE_S, clock: Clock = SYSTEM, retry_s: float | None = None
    ) -> Leadership:
        """Start to stand for the seat in this process."""
        times = timing(lease_s, retry_s)
        own = election(self._ends, self.backend, address or self.address, self.database_url, self.duty, lease_s, clock)
        leadership = Leadership(own, times, clock)
        self._ends.callback(stopped, leadership)
        leadership.start()
        return leadership

    def holder(self, lease_s: float = LEASE_S) -> Holder:
        """Start a process that leads and writes."""
        holder = Holder(self.database_url, self.duty, str(lease_s), self.backend, self.address)
        self._ends.callback(holder.end)
        return holder

    def restart_store(self) -> None:
        """Stop the store and start it again."""
        if self._kubernetes is not None:
            self._kubernetes.stop()
            self._kubernetes.start()
        else:
            (self.services.postgresql if self.backend == "postgresql" else self.services.valkey).restart()

    def written(self, term: int) -> int:
        """Return how many writes of a term are committed."""
        return int(self._asked("SELECT count(*) FROM effects WHERE v = :term", term=str(term)))

    def term_in_row(self) -> int:
        """Return the term that the fence compares with."""
        return int(self._asked("SELECT term FROM smena.leases"))

    def _asked(self, question: str, **values: Any) -> Any:
        with self.database.transaction() as connection:
            return connection.execute(sa.text(question), values).scalar_one()


@pytest.fixture(params=BACKENDS)
def ground(request: pytest.FixtureRequest, services: LocalServices, database_url: str, unique: str) -> Iterator[Ground]:
    """Give one backend's store."""
    with ExitStack() as ends:
        yield Ground(request.param, services, database_url, unique, ends)


@pytest.fixture
def leader_of() -> Callable[..., Leadership]:
    """Give a function that waits until exactly one of some candidates leads, and returns it."""

    def found(*candidates: Leadership) -> Leadership:
        def leading() -> Leadership:
            (one,) = [candidate for candidate in candidates if candidate.term() is not None]
            return one

        return eventually(leading, errors=(ValueError,))

    return found


def led(candidate: Leadership) -> int:
    """Wait until a candidate leads; return its term."""
    return eventually(candidate.term, until=lambda term: term is not None) or 0


def stopped(candidate: Leadership) -> None:
    """Stop a candidate, for good."""
    assert candidate.stop(Deadline.within(60, SYSTEM))
