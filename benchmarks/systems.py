"""Say how each measured system is sent to and run; one table, so that a reader sees what is compared."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from importlib.metadata import version

from smena.amqp import names

PYTHON = sys.executable
THREADS = 8


@dataclass(frozen=True, slots=True)
class System:
    """One way to run one system.

    ``module`` has its jobs and its publisher. ``prefetches`` are tried first, and the best goes on; an
    empty one leaves the system's default. ``prefetch_env`` is the variable that carries it. ``family``
    says whose rival it is when ratios are made. ``partitions`` is into how many queues its queue is cut.
    """

    name: str
    family: str
    module: str
    queue: str
    command: tuple[str, ...]
    package: str
    prefetches: tuple[int, ...] = ()
    prefetch_env: str = "BENCH_PREFETCH"
    environment: dict[str, str] = field(default_factory=dict)
    partitions: int = 0

    def queues(self) -> list[str]:
        """Return the names on the broker of the queues that its jobs lie in."""
        return names.addresses([self.queue], {self.queue: self.partitions}) if self.queue else []

    def version(self) -> str:
        """Return the version that is installed."""
        return version(self.package)

    def plus(self, **environment: str) -> System:
        """Return the same system with more in its environment."""
        return replace(self, environment={**self.environment, **environment})


_FLEET = (PYTHON, "-m", "workers.cli")
_WORKER = (*_FLEET, "worker", "--processes", "1", "--threads", str(THREADS))

SMENA = System(
    name="smena",
    family="smena",
    module="benchmarks.peers.smena_app",
    queue="smena.bench",
    command=_WORKER,
    package="smena-workspace",
    environment={"SMENA_BOOKS": "benchmarks.peers.smena_app"},
)

SMENA_ONCE = replace(
    SMENA,
    module="benchmarks.peers.smena_once",
    queue="smena.bench_once",
    environment={"SMENA_BOOKS": "benchmarks.peers.smena_once"},
)

SMENA_RELAY = replace(SMENA, command=(*_FLEET, "relay"))

_DRAMATIQ = (PYTHON, "-m", "dramatiq", "-p", "1", "-t", str(THREADS))

DRAMATIQ = System(
    name="dramatiq",
    family="dramatiq",
    module="benchmarks.peers.plain_dramatiq",
    queue="bench_dramatiq",
    command=(*_DRAMATIQ, "benchmarks.peers.plain_dramatiq"),
    package="dramatiq",
    prefetches=(16, 100, 1000),
    prefetch_env="dramatiq_queue_prefetch",
)

DRAMATIQ_QUORUM = replace(
    DRAMATIQ,
    name="dramatiq-quorum",
    family="like-with-like",
    queue="bench_dramatiq_quorum",
    environment={"BENCH_QUEUE_TYPE": "quorum"},
)

DRAMATIQ_ONCE = replace(
    DRAMATIQ,
    module="benchmarks.peers.dramatiq_once",
    queue="bench_dramatiq_once",
    command=(*_DRAMATIQ, "benchmarks.peers.dramatiq_once"),
)

_CELERY = (PYTHON, "-m", "celery", "-A", "benchmarks.peers.celery_app:app", "worker")

CELERY_THREADS = System(
    name="celery-threads",
    family="celery",
    module="benchmarks.peers.celery_app",
    queue="bench_celery",
    command=(*_CELERY, "-l", "error", "-c", str(THREADS), "-P", "threads"),
    package="celery",
    prefetches=(4, 16, 128),
)

CELERY_PREFORK = replace(
    CELERY_THREADS,
    name="celery-prefork",
    command=(*_CELERY, "-l", "error", "-c", str(THREADS), "-P", "prefork"),
)

_TASKIQ = (PYTHON, "-m", "taskiq", "worker", "benchmarks.peers.taskiq_app:broker", "--log-level", "ERROR")

TASKIQ = System(
    name="taskiq",
    family="taskiq",
    module="benchmarks.peers.taskiq_app",
    queue="bench_taskiq",
    command=(*_TASKIQ, "--workers", "1", "--max-threadpool-threads", str(THREADS)),
    package="taskiq",
    prefetches=(10, 100, 1000),
)

FASTSTREAM = System(
    name="faststream",
    family="faststream",
    module="benchmarks.peers.faststream_app",
    queue="bench_faststream",
    command=(PYTHON, "-m", "benchmarks.peers.faststream_app"),
    package="faststream",
    prefetches=(10, 100, 1000),
)

BARE_PIKA = System(
    name="bare-pika",
    family="limit",
    module="benchmarks.peers.bare_pika",
    queue="bench_pika",
    command=(PYTHON, "-m", "benchmarks.peers.bare_pika"),
    package="pika",
    prefetches=(1000,),
)

BARE_RELAY = System(
    name="bare-relay",
    family="limit",
    module="benchmarks.peers.smena_app",
    queue="bench_relay",
    command=(PYTHON, "-m", "benchmarks.peers.bare_relay"),
    package="psycopg",
)

SMENA_SLICES = replace(
    SMENA,
    module="benchmarks.peers.smena_batch",
    queue="smena.bench_batch",
    command=(*_FLEET, "up", "--roles", "worker,relay", "--processes", "2", "--threads", "2"),
    environment={"SMENA_BOOKS": "benchmarks.peers.smena_batch", "BENCH_PER": "slice"},
)

SMENA_ITEMS = replace(SMENA_SLICES, name="smena-item", environment={**SMENA_SLICES.environment, "BENCH_PER": "item"})

_TWO = (*_FLEET, "worker", "--processes", "2", "--threads", str(THREADS))

SMENA_ORDERED = replace(
    SMENA,
    module="benchmarks.peers.smena_ordered",
    queue="smena.bench_ordered",
    command=_TWO,
    environment={"SMENA_BOOKS": "benchmarks.peers.smena_ordered"},
    partitions=32,
)

SMENA_UNORDERED = replace(
    SMENA,
    name="unordered-once",
    family="limit",
    module="benchmarks.peers.smena_unordered",
    queue="smena.bench_unordered",
    command=_TWO,
    environment={"SMENA_BOOKS": "benchmarks.peers.smena_unordered"},
)

SMENA_PLAIN = replace(SMENA, name="unordered-plain", family="like-with-like", command=_TWO)

PROCRASTINATE = System(
    name="procrastinate",
    family="table",
    module="benchmarks.peers.procrastinate_app",
    queue="",
    command=(PYTHON, "-m", "benchmarks.peers.procrastinate_app", "work"),
    package="procrastinate",
    prefetches=(4, 16, 64),
)

PGQUEUER = System(
    name="pgqueuer",
    family="table",
    module="benchmarks.peers.pgqueuer_app",
    queue="",
    command=(PYTHON, "-m", "benchmarks.peers.pgqueuer_app", "work"),
    package="pgqueuer",
    prefetches=(10, 100, 1000),
)

BARE_CLAIMS = System(
    name="bare-claims",
    family="limit",
    module="benchmarks.peers.bare_claims",
    queue="",
    command=(PYTHON, "-m", "benchmarks.peers.bare_claims", "work"),
    package="psycopg",
)

BARE_PSYCOPG = System(
    name="bare-psycopg",
    family="limit",
    module="benchmarks.peers.bare_psycopg",
    queue="",
    command=(PYTHON, "-m", "benchmarks.peers.bare_psycopg"),
    package="psycopg",
)

DRAIN = (SMENA, DRAMATIQ, DRAMATIQ_QUORUM, CELERY_THREADS, CELERY_PREFORK, TASKIQ, FASTSTREAM, BARE_PIKA)
LATENCY = DRAIN
CELERY = replace(CELERY_THREADS, name="celery")
_SENDERS = (SMENA, DRAMATIQ, DRAMATIQ_QUORUM, CELERY, TASKIQ, FASTSTREAM, BARE_PIKA)
PUBLISH = tuple(system.plus(BENCH_CONFIRM="1") for system in _SENDERS)
OUTBOX = (SMENA_RELAY, BARE_RELAY)
ONCE = (SMENA_ONCE, DRAMATIQ_ONCE, BARE_PSYCOPG)
CLAIMS = (SMENA_SLICES, SMENA_ITEMS, PROCRASTINATE, PGQUEUER, BARE_CLAIMS)
PARTITIONS = (SMENA_ORDERED, SMENA_UNORDERED, SMENA_PLAIN)
