"""Waiting for a descriptor whose number is above 1023."""

import mmap
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

import pytest

from smena.clock import SYSTEM, Deadline
from tests.fixtures.eventually import PATIENCE_S
from workers.execution.cell_frames import Answer, Talk
from workers.execution.pool_process import PoolProcess
from workers.process.pipe import Failed, Pipe, Report

_TAKEN: Final = 1100
"""More than `select.select` can name."""


@pytest.fixture
def crowded() -> Iterator[None]:
    """Have so many descriptors that the next is above 1023."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * _TAKEN), hard))
    taken = [os.open(os.devnull, os.O_RDONLY) for _ in range(_TAKEN)]
    yield
    for descriptor in taken:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def ends(crowded: None) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Give a line whose ends have high numbers."""
    ours, theirs = socket.socketpair()
    assert min(ours.fileno(), theirs.fileno()) > 1023
    with ours, theirs:
        yield ours, theirs


def test_a_worker_with_many_descriptors_hears_its_cell(ends: tuple[socket.socket, socket.socket]) -> None:
    worker, cell = map(Talk, ends)

    assert not worker.has_come(0.0)
    cell.send(Answer(1, "acked"))
    assert worker.has_come(PATIENCE_S)
    assert worker.receive() == Answer(1, "acked")


def test_a_child_with_many_descriptors_says_its_last_words(ends: tuple[socket.socket, socket.socket]) -> None:
    child, supervisor = map(Pipe, ends)
    while child.send(Report({"counters": {"x" * 100_000: {"y": 1}}})):
        pass
    child.send(Failed("the last words"))

    assert not child.flush(Deadline.within(0.01, SYSTEM))
    assert supervisor.receive()


def test_a_worker_with_many_descriptors_kills_a_step(ends: tuple[socket.socket, socket.socket]) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as program:
        process = PoolProcess(program.pid, ends[0], mmap.mmap(-1, 8))
        try:
            process.kill()
            assert program.wait(PATIENCE_S) == -9
        finally:
            program.kill()
            process.close()
