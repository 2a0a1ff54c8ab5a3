"""Run one system's processes: send to it, start its worker, end it, kill it; nothing outlives its block."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.ground import Ground
from benchmarks.proof import Proof
from benchmarks.systems import System

POLL_S = 0.02
STALL_S = 45.0
"""Without progress for so long a system has stalled; a relay's lease of a dead one is 30 s."""

_END_S = 30.0
_SEND_S = 120.0

Process = subprocess.Popen[bytes]


class Stalled(Exception):
    """A system did not come to the awaited state in time."""


def send(system: System, ground: Ground, proof: Proof, mode: str, *numbers: float) -> dict[str, Any]:
    """Send jobs by the system's own publisher in a process of its own; return what it measured."""
    with sender(system, ground, proof, mode, *numbers) as process:
        try:
            output, _ = process.communicate(timeout=_SEND_S)
        except subprocess.TimeoutExpired as error:
            raise Stalled(f"{system.name} could not send in {_SEND_S:.0f} s") from error
    if process.returncode != 0:
        raise Stalled(f"the sender of {system.name} ended with {process.returncode}")
    measured: dict[str, Any] = json.loads(output.splitlines()[-1])
    return measured


@contextmanager
def sender(system: System, ground: Ground, proof: Proof, mode: str, *numbers: float) -> Iterator[Process]:
    """Run the system's publisher for the block."""
    command = [sys.executable, "-m", "benchmarks.sending", system.module, mode, *map(str, numbers)]
    environment = ground.environment(system, proof.path)
    with _running(command, environment, ground, ground.log(system), subprocess.PIPE) as process:
        yield process


@contextmanager
def worker(system: System, ground: Ground, proof: Path | None = None, prefetch: int | None = None) -> Iterator[Process]:
    """Run the system's worker for the block."""
    environment = ground.environment(system, proof, prefetch)
    with _running(system.command, environment, ground, ground.log(system)) as process:
        yield process


@contextmanager
def _running(
    command: Sequence[str], environment: dict[str, str], ground: Ground, log: Path, output: int | None = None
) -> Iterator[Process]:
    with log.open("ab") as lines:
        process = subprocess.Popen(
            command,
            cwd=ground.folder,
            env=environment,
            stdout=lines if output is None else output,
            stderr=lines,
            start_new_session=True,  # a Ctrl-C is ours alone; we end our children in order
        )
    try:
        with process:
            try:
                yield process
            finally:
                _end(process)
    finally:
        _kill_session(process)


def kill(process: Process) -> None:
    """Kill a process and all it has started, at once, as a power cut would."""
    tell_all(process, signal.SIGKILL)
    process.wait()


def tell_all(process: Process, number: signal.Signals) -> None:
    """Send a signal to a process and to all it has started."""
    for pid in (process.pid, *_descendants(process.pid)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def await_effects(proof: Proof, jobs: int, system: System, process: Process, *, look_s: float = POLL_S) -> int:
    """Wait for that many effects and return how many there are; raise `Stalled` without progress."""
    done, since = 0, time.monotonic()
    while (effects := proof.effects()) < jobs:
        if effects > done:
            done, since = effects, time.monotonic()
        if process.poll() is not None:
            raise Stalled(f"the worker of {system.name} ended with {process.returncode} after {effects} of {jobs} jobs")
        if time.monotonic() - since > STALL_S:
            raise Stalled(f"{system.name} has stopped after {effects} of {jobs} jobs")
        time.sleep(look_s)
    return effects


def wait_for(condition: Callable[[], bool], what: str, process: Process | None = None) -> None:
    """Wait until the condition holds; raise `Stalled` when it does not, or when the process is gone."""
    give_up = time.monotonic() + STALL_S
    while not condition():
        if process is not None and process.poll() is not None:
            raise Stalled(f"{what}: its process ended with {process.returncode}")
        if time.monotonic() > give_up:
            raise Stalled(what)
        time.sleep(POLL_S)


def wait_settled(system: System, ground: Ground) -> None:
    """Wait until the system's queue is empty."""
    wait_for(lambda: ground.is_settled(system), f"the queue of {system.name} is not empty")


def _end(process: Process) -> None:
    """Ask politely; kill what does not listen."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            kill(process)


def _kill_session(process: Process) -> None:
    """Kill what the process has left behind in its session."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    """Return all descendants of a process, also those in other sessions."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found
