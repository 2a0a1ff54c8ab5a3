"""A seat tells of each attempt that it runs, if anybody listens."""

from __future__ import annotations

from typing import Any

import pytest

from smena.book import Book
from smena.job import Job
from smena.settings.groups import Retry as RetryDefaults
from smena.telemetry import events
from smena.telemetry.tally import Board
from tests.fixtures.fix_events import Listen
from tests.fixtures.no_recorder import NoRecorder
from tests.fixtures.noted_delivery import NotedDelivery
from workers.execution.seat import UNKNOWN, Seat
from workers.middleware.attempt import Attempt
from workers.middleware.bound import BoundActor
from workers.middleware.outcome import DONE, Done, Outcome, Returned

book = Book("seated")


@book.actor(queue="sales")
def plain() -> None:
    """Stand for an actor."""


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (DONE, ["job.started", "job.done"]),
        (Done(b"kept"), ["job.started", "job.done"]),
        (Returned("drain"), ["job.started"]),
    ],
)
def test_an_attempt_is_told_of_when_it_begins_and_when_it_has_taken_effect(
    outcome: Outcome, told: list[str], listen: Listen
) -> None:
    seen = listen(events.JOB_STARTED, events.JOB_DONE)
    actor: Any = plain
    bound = BoundActor(actor, actor.retry.policy(RetryDefaults()))
    bound.call = lambda _: outcome
    job = Job(actor=actor.name, queue="sales")

    Seat(0, NoRecorder(), Board().tally()).run(Attempt(NotedDelivery(), job, bound))

    assert [occurrence.event.name for occurrence in seen] == told
    assert {(one.fields["job"], one.fields["queue"], one.fields["attempt"]) for one in seen} == {(job.id, "sales", 1)}


def test_p12_a_job_that_the_rings_lost_is_named(listen: Listen) -> None:
    seen = listen(events.JOB_UNSETTLED)
    actor: Any = plain
    bound = BoundActor(actor, actor.retry.policy(RetryDefaults()))
    bound.call = lambda _: 1 / 0
    job = Job(actor=actor.name, queue="sales", attempt=2)

    outcome = Seat(0, NoRecorder(), Board().tally()).run(Attempt(NotedDelivery(), job, bound))

    assert outcome == Returned(UNKNOWN)
    (told,) = seen
    assert (told.fields["job"], told.fields["actor"], told.fields["attempt"]) == (job.id, actor.name, 2)
    assert (told.fields["outcome"], told.fields["times"]) == ("unknown", 1)
    assert "ZeroDivisionError" in told.fields["error"]
