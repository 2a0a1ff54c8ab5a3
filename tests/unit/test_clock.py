"""Two clocks, one of which a test can move, and the deadline that many steps share."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest

from smena.clock import SYSTEM, Deadline, MovedClock
from workers.execution.coroutines import Coroutines

START = datetime(2026, 3, 29, 0, 59, tzinfo=UTC)


def test_the_system_clock_is_aware_and_in_utc() -> None:
    assert SYSTEM.now().utcoffset() == timedelta(0)
    assert abs(SYSTEM.now_ms() - SYSTEM.now().timestamp() * 1000) < 60_000


def test_monotonic_time_never_goes_back() -> None:
    times = [SYSTEM.monotonic() for _ in range(100)]
    assert times == sorted(times)


def test_code_that_stops_the_clock_for_itself_stops_it_for_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    coroutines = Coroutines([])
    coroutines.start()
    for name in ("monotonic", "time", "time_ns"):
        monkeypatch.setattr(time, name, lambda: 0)
    assert SYSTEM.monotonic() > 0
    assert SYSTEM.now_ms() > 0
    coroutines.call(asyncio.sleep(0.01), Deadline.within(20, SYSTEM))
    coroutines.stop(Deadline.within(20, SYSTEM))


def test_a_moved_clock_moves_both_ways_of_telling_time_together() -> None:
    clock = MovedClock(START)
    clock.advance(90.5)
    assert clock.monotonic() == 90.5
    assert clock.now() - START == timedelta(seconds=90.5)
    assert clock.now_ms() - int(START.timestamp() * 1000) == 90_500


def test_steps_share_one_deadline() -> None:
    clock = MovedClock(START)
    deadline = Deadline.within(25.0, clock)
    clock.advance(10)
    assert deadline.left_s() == 15.0
    clock.advance(15)
    assert deadline.passed()
    clock.advance(100)
    assert deadline.left_s() == 0.0
