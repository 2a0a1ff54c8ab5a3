"""For how long a process has been stopped, and that one who was stopped himself begins anew."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from smena.clock import MovedClock
from tests.fixtures.eventually import eventually
from workers.process import processor
from workers.process.standstill import LOOK_S
from workers.process.stoppage import Stoppage

BOUND_S = 60.0


@pytest.fixture
def pid() -> Iterator[int]:
    """Give a process that waits."""
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as running:
        yield running.pid
        running.kill()


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock(datetime(2026, 1, 1, tzinfo=UTC))


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: processor.is_stopped(pid))


def go_on(pid: int) -> None:
    os.kill(pid, signal.SIGCONT)
    eventually(lambda: not processor.is_stopped(pid))


def is_too_long(watch: Stoppage, clock: MovedClock, seconds: float) -> bool:
    """Look as often as the supervisor does for so long; say whether any look found it too long."""
    found = False
    for _ in range(int(seconds / LOOK_S)):
        clock.advance(LOOK_S)
        found = watch.look() or found
    return found


def test_p21_one_that_was_stopped_for_longer_than_the_bound_is_found(pid: int, clock: MovedClock) -> None:
    watch = Stoppage(pid, BOUND_S, clock)
    assert not is_too_long(watch, clock, 3 * BOUND_S)
    assert watch.stopped_s == 0.0
    stop(pid)
    assert not is_too_long(watch, clock, BOUND_S)
    assert watch.stopped_s == BOUND_S
    assert is_too_long(watch, clock, 1.0)


def test_one_that_went_on_meanwhile_has_the_whole_time_again(pid: int, clock: MovedClock) -> None:
    watch = Stoppage(pid, BOUND_S, clock)
    stop(pid)
    assert not is_too_long(watch, clock, BOUND_S - 1.0)
    go_on(pid)
    assert not is_too_long(watch, clock, 1.0)
    assert watch.stopped_s == 0.0
    stop(pid)
    assert not is_too_long(watch, clock, BOUND_S - 1.0)


def test_who_has_not_looked_for_a_while_was_stopped_too_and_begins_anew(pid: int, clock: MovedClock) -> None:
    watch = Stoppage(pid, BOUND_S, clock)
    stop(pid)
    assert not is_too_long(watch, clock, BOUND_S - 1.0)
    clock.advance(10 * BOUND_S)
    assert not watch.look()
    assert not is_too_long(watch, clock, BOUND_S)
    assert is_too_long(watch, clock, 1.0)


def test_a_process_that_is_gone_is_not_stopped(pid: int, clock: MovedClock) -> None:
    watch = Stoppage(pid, BOUND_S, clock)
    stop(pid)
    assert not is_too_long(watch, clock, BOUND_S)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not processor.is_stopped(pid))
    assert not is_too_long(watch, clock, BOUND_S)
