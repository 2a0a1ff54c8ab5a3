"""Find attempts that do not come to their actor's own code, or not back from it.

A watch strikes nothing there: it is the machine's code. But it calls code of the user's: the types of the arguments,
the function that gives the `once` key, the text of an error. What hangs in those has the actor's own limit and grace to
come out of it, and as long besides as the machine itself may take, a silent database included. An actor without a limit
has none here either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from workers.execution.seat import Seat
from workers.middleware.attempt import Attempt
from workers.middleware.stopwatch import NEVER

OUTSIDE_S: Final = 60.0
"""What an attempt may take outside its actor's own code beside its limit, where it waits for no database."""


class Outside:
    """Since when the attempt at each seat has been outside, as last seen."""

    def __init__(self, seats: Sequence[Seat], most_s: float) -> None:
        self._seats = seats
        self._most_s = most_s
        self._since: dict[Seat, tuple[Attempt, float]] = {}

    def look(self, now_s: float) -> Iterator[tuple[Seat, Attempt]]:
        """Yield the attempts that have been outside for too long."""
        before, self._since = self._since, {}
        for seat in self._seats:
            attempt = seat.attempt
            if attempt is None or attempt.actor.soft_s is None or seat.is_stuck or seat.watch.due_s != NEVER:
                continue
            seen, since_s = before.get(seat, (attempt, now_s))
            if seen is not attempt:
                since_s = now_s
            self._since[seat] = attempt, since_s
            if now_s - since_s > attempt.actor.soft_s + attempt.actor.grace_s + self._most_s:
                yield seat, attempt

    def put_off(self, seconds: float) -> None:
        """Give back time in which nothing could run."""
        self._since = {seat: (attempt, since_s + seconds) for seat, (attempt, since_s) in self._since.items()}
