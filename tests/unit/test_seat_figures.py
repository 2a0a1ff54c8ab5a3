"""What the seats have in hand is shown as long as they have it."""

from __future__ import annotations

import time
from typing import Any

import pytest

from smena.book import Book
from smena.job import Job
from smena.settings.groups import Retry as RetryDefaults
from smena.telemetry.tally import Board
from tests.fixtures.no_recorder import NoRecorder
from tests.fixtures.noted_delivery import NotedDelivery
from workers.execution import seat_figures
from workers.execution.seat import Seat
from workers.middleware.attempt import Attempt
from workers.middleware.bound import BoundActor
from workers.middleware.outcome import DONE, Outcome

book = Book("figures")


@book.actor()
def plain() -> None:
    """Stand for an actor."""


class Seats:
    """Some seats and the board that shows them."""

    def __init__(self) -> None:
        self.board = Board()
        self.seats = [Seat(slot, NoRecorder(), self.board.tally()) for slot in range(3)]
        seat_figures.show(self.board, self.seats)

    def run(self, slot: int, queue: str, age_s: float) -> dict[str, dict[str, float]]:
        """Run a job that has been due for so long; return the gauges while it ran."""
        seen: dict[str, Any] = {}

        def look(_: Attempt) -> Outcome:
            seen.update(self.gauges())
            return DONE

        actor: Any = plain
        bound = BoundActor(actor, actor.retry.policy(RetryDefaults()))
        bound.call = look
        job = Job(actor=actor.name, queue=queue, timestamp_ms=int((time.time() - age_s) * 1000))
        self.seats[slot].run(Attempt(NotedDelivery(), job, bound))
        return seen

    def gauges(self) -> dict[str, dict[str, float]]:
        """Return what is shown now."""
        return self.board.snapshot()["gauges"]


def test_the_oldest_age_is_that_of_the_oldest_job_that_a_seat_started_last() -> None:
    seats = Seats()
    assert seats.gauges()["smena_oldest_age_seconds"] == {}
    for slot, queue, age_s in ((0, "sales", 900), (1, "sales", 300), (2, "mail", 30), (2, "mail", -5)):
        seats.run(slot, queue, age_s)
    assert seats.gauges()["smena_oldest_age_seconds"] == {"sales": pytest.approx(900, abs=60), "mail": 0.0}
    seats.run(0, "sales", 3)
    assert seats.gauges()["smena_oldest_age_seconds"]["sales"] == pytest.approx(300, abs=60)


def test_a_queue_from_which_nothing_starts_any_more_has_no_oldest_age() -> None:
    seats = Seats()
    seats.run(0, "sales", 900)
    (queue, (started_at, age_s)), *_ = seats.seats[0].ages.items()
    seats.seats[0].ages[queue] = started_at - seat_figures.LOOKED_BACK_S, age_s
    assert seats.gauges()["smena_oldest_age_seconds"] == {}


def test_a_job_is_in_flight_while_it_runs() -> None:
    seats = Seats()
    assert seats.run(1, "sales", 0)["smena_in_flight"] == {"sales": 1}
    assert seats.gauges()["smena_in_flight"] == {}
