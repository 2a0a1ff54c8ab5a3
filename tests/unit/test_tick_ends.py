"""A tick's job is acked only after its end is written, so a schedule that does not overlap never waits for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, cast

from smena.clock import SYSTEM, Deadline
from smena.errors import DatabaseLost
from smena.job import Job, Tick
from smena.records.ticks import Endings
from tests.fixtures.eventually import eventually
from workers.execution.tick_ends import TickEnds
from workers.middleware.attempt import Attempt

TICK = Tick("house.sweep", datetime(2026, 1, 1, tzinfo=UTC))


class Line:
    """Notes in which order rows are written and deliveries acked; the first write fails."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def done(self, job_ids: Sequence[str]) -> None:
        self.seen.append(f"row {job_ids[0]}")
        if len(self.seen) == 1:
            raise DatabaseLost

    def attempt(self, job: Job) -> Attempt:
        return cast("Attempt", _Attempt(job, self.seen))


class _Attempt:
    def __init__(self, job: Job, seen: list[str]) -> None:
        self.job = job
        self.delivery = self
        self._seen = seen

    def ack(self) -> None:
        self._seen.append(f"ack {self.job.id}")


def _job(number: str, **more: Any) -> Job:
    return Job(id=number, actor="house.sweep", queue="house", **more)


def test_the_row_is_written_before_the_ack_and_again_when_the_database_was_away() -> None:
    line = Line()
    ends = TickEnds(cast("Endings", line))
    ends.done(line.attempt(_job("1").of_tick(TICK)))
    assert line.seen == []
    ends.start()
    eventually(lambda: len(line.seen) == 3)
    assert line.seen == ["row 1", "row 1", "ack 1"]
    assert ends.stop(Deadline.within(10, SYSTEM))


def test_what_no_schedule_sent_is_acked_at_once() -> None:
    line = Line()
    TickEnds(cast("Endings", line)).done(line.attempt(_job("2", headers={"colour": "red"})))
    assert line.seen == ["ack 2"]


def test_what_waits_at_the_end_is_written_then() -> None:
    line = Line()
    line.seen.append("")
    ends = TickEnds(cast("Endings", line))
    ends.start()
    ends.done(line.attempt(_job("3").of_tick(TICK)))
    assert ends.stop(Deadline.within(10, SYSTEM))
    assert line.seen == ["", "row 3", "ack 3"]
