"""Say how each measured system is filled and run; one table, so that a reader sees what is compared."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from importlib.metadata import version

PYTHON = sys.executable


@dataclass(frozen=True, slots=True)
class System:
    """One way to run one system.

    ``prefetches`` are tried in a first short round, the best goes on; an empty one leaves the
    system's default. ``prefetch_env`` is the variable that carries it.
    """

    name: str
    module: str
    queue: str
    command: tuple[str, ...]
    package: str
    prefetches: tuple[int, ...] = ()
    prefetch_env: str = "BENCH_PREFETCH"
    environment: dict[str, str] = field(default_factory=dict)

    def version(self) -> str:
        """Return the version that is installed."""
        return version(self.package)


SMENA = System(
    name="smena",
    module="benchmarks.peers.smena_app",
    queue="smena.bench",
    command=(PYTHON, "-m", "workers.cli", "worker", "--processes", "1", "--threads", "8"),
    package="smena-workspace",
    environment={"SMENA_BOOKS": "benchmarks.peers.smena_app"},
)

DRAMATIQ = System(
    name="dramatiq",
    module="benchmarks.peers.plain_dramatiq",
    queue="bench_dramatiq",
    command=(PYTHON, "-m", "dramatiq", "benchmarks.peers.plain_dramatiq", "-p", "1", "-t", "8"),
    package="dramatiq",
    prefetches=(16, 100, 1000),
    prefetch_env="dramatiq_queue_prefetch",
)

_CELERY = (PYTHON, "-m", "celery", "-A", "benchmarks.peers.celery_app:app", "worker", "-l", "error", "-c", "8", "-P")

CELERY_THREADS = System(
    name="celery-threads",
    module="benchmarks.peers.celery_app",
    queue="bench_celery",
    command=(*_CELERY, "threads"),
    package="celery",
    prefetches=(4, 16, 128),
)

CELERY_PREFORK = System(
    name="celery-prefork",
    module="benchmarks.peers.celery_app",
    queue="bench_celery",
    command=(*_CELERY, "prefork"),
    package="celery",
    prefetches=(4, 16, 128),
)

TASKIQ = System(
    name="taskiq",
    module="benchmarks.peers.taskiq_app",
    queue="bench_taskiq",
    command=(
        PYTHON,
        "-m",
        "taskiq",
        "worker",
        "benchmarks.peers.taskiq_app:broker",
        "--workers",
        "1",
        "--max-threadpool-threads",
        "8",
        "--log-level",
        "ERROR",
    ),
    package="taskiq",
    prefetches=(10, 100, 1000),
)

FASTSTREAM = System(
    name="faststream",
    module="benchmarks.peers.faststream_app",
    queue="bench_faststream",
    command=(PYTHON, "-m", "benchmarks.peers.faststream_app"),
    package="faststream",
    prefetches=(10, 100, 1000),
)

LIMIT = System(
    name="bare-pika",
    module="benchmarks.peers.bare_pika",
    queue="bench_pika",
    command=(PYTHON, "-m", "benchmarks.peers.bare_pika"),
    package="pika",
    prefetches=(1000,),
)

DRAIN = (SMENA, DRAMATIQ, CELERY_THREADS, CELERY_PREFORK, TASKIQ, FASTSTREAM, LIMIT)
