"""In which order a worker process ends, and what it leaves open."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from smena.clock import SYSTEM, Deadline, MovedClock
from workers.execution.worker import Worker


class Part:
    """A service that notes how it ended."""

    def __init__(self, name: str, ended: list[str]) -> None:
        self.name = name
        self._ended = ended

    def start(self) -> None:
        """Start nothing."""

    def stop(self, deadline: Deadline) -> bool:
        self._ended.append(self.name)
        return not deadline.passed()


class Jobs:
    """A runner whose jobs go on until they are ``left``."""

    def __init__(self, left: int) -> None:
        self.left = left

    def waiting(self) -> int:
        return 0

    def running(self) -> int:
        return self.left

    def hand_back(self) -> int:
        return 0

    def finish(self, deadline: Deadline) -> bool:
        return not self.left and not deadline.passed()


class Source:
    """A consumer whose broker answers at once."""

    def __init__(self, told: list[str]) -> None:
        self._told = told

    def start(self) -> None:
        """Take nothing."""

    def cancel(self, done: Callable[[], object]) -> None:
        self._told.append("cancelled")
        done()

    def flush(self, done: Callable[[], object]) -> None:
        self._told.append("flushed")
        done()


@pytest.mark.parametrize(
    ("left", "then"),
    [(0, ["cancelled", "settler", "pool", "connection"]), (1, ["cancelled", "settler", "pool", "flushed"])],
)
def test_p28_the_connection_stays_open_as_long_as_a_job_runs(left: int, then: list[str]) -> None:
    """The broker gives its message to another as soon as it closes: what is settled is told before, and that is all."""
    told: list[str] = []
    worker = Worker([Part("connection", told)], [Part("pool", told)], Part("settler", told), [Jobs(left)], Source(told))
    worker.start()
    assert worker.stop(Deadline.within(10, SYSTEM)) is not bool(left)
    assert told == then


class SlowLine(Part):
    """A connection whose broker takes its time to say goodbye."""

    def __init__(self, name: str, ended: list[str], clock: MovedClock) -> None:
        super().__init__(name, ended)
        self._clock = clock

    def stop(self, deadline: Deadline) -> bool:
        self._clock.advance(1.5)
        return super().stop(deadline)


def test_a_drain_with_time_left_has_not_overrun_because_the_broker_was_slow_to_say_goodbye() -> None:
    told: list[str] = []
    clock = MovedClock(datetime(2026, 1, 1, tzinfo=UTC))
    lines = [SlowLine(name, told, clock) for name in ("consuming", "partitions", "publishing")]
    worker = Worker(lines, [Part("pool", told)], Part("settler", told), [Jobs(0)], Source(told))
    worker.start()
    assert worker.stop(Deadline.within(10, clock))
    assert told[-3:] == ["publishing", "partitions", "consuming"]
