"""Run one system as its own process: fill its queue, start its worker, stop it, kill it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pika

from benchmarks.proof import ENVIRONMENT
from benchmarks.systems import System

POLL_S = 0.02
PATIENCE_S = 180.0


class Stalled(Exception):
    """A system did not come to the awaited state in time."""


def environment(system: System, proof: Path, prefetch: int | None) -> dict[str, str]:
    """Return the environment of a worker or a filler of this system."""
    values = {**os.environ, **system.environment, ENVIRONMENT: str(proof)}
    if prefetch is not None:
        values[system.prefetch_env] = str(prefetch)
    return values


def fill(system: System, jobs: int, env: dict[str, str]) -> None:
    """Send that many jobs with the system's own publisher."""
    code = f"from {system.module} import fill; fill({jobs})"
    subprocess.run([sys.executable, "-c", code], env=env, check=True, timeout=PATIENCE_S)


@contextmanager
def worker(system: System, env: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the system's worker for the block, in a session of its own; end it politely after."""
    with log.open("ab") as output:
        process = subprocess.Popen(system.command, env=env, stdout=output, stderr=output, start_new_session=True)
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask the worker to end; kill its session when it does not."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the worker and all it has started, as a power cut would."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_for(condition: Callable[[], bool], what: str, process: subprocess.Popen[bytes] | None = None) -> None:
    """Wait until the condition holds; raise `Stalled` when it does not, or when the worker is gone."""
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        if process is not None and process.poll() is not None:
            raise Stalled(f"{what}: the worker ended with {process.returncode}")
        if time.monotonic() > give_up:
            raise Stalled(what)
        time.sleep(POLL_S)


def depth(queue: str) -> int:
    """Return how many messages are ready in a queue; 0 when it does not exist."""
    connection = pika.BlockingConnection(pika.URLParameters(os.environ["SMENA_AMQP_URL"]))
    try:
        return int(connection.channel().queue_declare(queue, passive=True).method.message_count)
    except pika.exceptions.ChannelClosedByBroker:
        return 0
    finally:
        connection.close()


def purge(queue: str) -> None:
    """Empty a queue if it exists."""
    connection = pika.BlockingConnection(pika.URLParameters(os.environ["SMENA_AMQP_URL"]))
    try:
        connection.channel().queue_purge(queue)
    except pika.exceptions.ChannelClosedByBroker:
        return
    finally:
        connection.close()
