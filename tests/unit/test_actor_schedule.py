"""A schedule is declared beside its actor, and refused at once where it cannot work."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

import smena
from smena.amqp import codec
from smena.job import Job, Tick

DAILY = smena.cron("@daily", tz="Europe/Moscow")


def test_an_actor_has_the_schedule_that_it_declares() -> None:
    book = smena.Book("house")

    @book.actor(schedule=DAILY, misfire="all", overlap="queue")
    def sweep() -> None: ...

    assert sweep.schedule == smena.Schedule(DAILY, misfire="all", overlap="queue")


def test_arguments_come_from_the_schedule_as_they_travel() -> None:
    book = smena.Book("house")

    @book.actor(schedule=smena.Schedule(DAILY, args=(datetime(2026, 1, 1, tzinfo=UTC),), kwargs={"rooms": 3}))
    def sweep(ctx: smena.Context, /, since: datetime, rooms: int) -> None: ...

    assert sweep.schedule is not None
    assert (sweep.schedule.args, sweep.schedule.kwargs) == (("2026-01-01T00:00:00Z",), {"rooms": 3})


@pytest.mark.parametrize(
    "declared",
    [
        {"schedule": DAILY},  # the actor wants an argument
        {"schedule": smena.Schedule(DAILY, args=("three",))},
        {"schedule": smena.Schedule(DAILY, args=(3,)), "misfire": "one"},
        {"misfire": "one", "schedule": None},
        {"schedule": DAILY, "overlap": "never"},
        {"schedule": "0 3 * * *"},
    ],
)
def test_what_cannot_work_is_refused_with_the_place(declared: dict[str, Any]) -> None:
    book = smena.Book("house")

    def sweep(rooms: int) -> None: ...

    with pytest.raises(smena.Misdeclared, match=r"test_actor_schedule\.py:"):
        book.actor(**declared)(sweep)


@pytest.mark.parametrize("wrong", [{"misfire_cap": 0}, {"misfire": "never"}, {"args": "abc"}])
def test_a_schedule_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(smena.Misdeclared):
        smena.Schedule(DAILY, **wrong)


def test_a_job_tells_its_tick_through_the_wire_and_its_retries() -> None:
    tick = Tick("house.sweep", datetime(2026, 3, 29, 1, 30, tzinfo=UTC))
    wire = codec.encode(Job(actor="house.sweep", queue="house").of_tick(tick).next_attempt())
    assert codec.decode(wire.body, wire.properties).tick == tick
    assert smena.Context(Job(actor="house.sweep", queue="house").of_tick(tick)).tick == tick
    assert Job(actor="a.b", queue="q").tick is None
    assert Job(actor="a.b", queue="q", headers={"schedule": "x", "scheduled-at": "soon"}).tick is None
