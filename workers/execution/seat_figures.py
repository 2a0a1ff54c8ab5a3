"""Show what the seats of a process have in hand, read from them when figures are asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from time import time
from typing import Final

from smena.telemetry.metric import IN_FLIGHT, OLDEST_AGE
from smena.telemetry.tally import Board
from workers.execution.seat import Seat

LOOKED_BACK_S: Final = 60.0
"""A job that started longer ago says nothing of how old those are that start now."""


def show(board: Board, seats: Sequence[Seat]) -> None:
    """Give the state of the seats as gauges."""
    board.gauge(IN_FLIGHT, partial(in_flight, seats))
    board.gauge(OLDEST_AGE, partial(oldest_ages_s, seats))


def in_flight(seats: Sequence[Seat]) -> Counter[str]:
    """Return by queue how many jobs run now."""
    return Counter(attempt.job.queue for seat in seats if (attempt := seat.attempt) is not None)


def oldest_ages_s(seats: Sequence[Seat]) -> dict[str, float]:
    """Return by queue how old the oldest was of the jobs that the seats started last."""
    ages: dict[str, float] = {}
    since = time() - LOOKED_BACK_S
    for seat in seats:
        for queue, (started_at, age_s) in seat.ages.copy().items():
            if started_at >= since:
                ages[queue] = max(age_s, ages.get(queue, 0.0))
    return ages
