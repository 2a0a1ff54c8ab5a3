"""Look at the seats' watches and strike those that are due; find what goes on past its grace.

One thread looks at all seats every 0.1 s, so a job with a limit costs no timer. A job on the event loop is struck by
the loop itself, between two steps; its grace is counted there too, in four parts, so that a neighbour that holds the
loop up does not use it up.

What goes on past its grace can only be ended with its process: `on_hard` hears of it, once. So does what holds the
event loop up past its own time and grace, for then no cancellation reaches anything; and what does not come to its own
code or back from it (`workers/execution/outside.py`), where nothing is struck.

When this thread itself comes late, nothing in the process could run (a job's C code held the interpreter, or the
machine stood still): that time is given back to all.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from smena.clock import SYSTEM, Clock
from smena.lifecycle import Loop
from smena.telemetry import events
from smena.telemetry.metric import TIMES_UP
from smena.telemetry.tally import Board
from workers.execution.outside import OUTSIDE_S, Outside
from workers.execution.seat import Seat
from workers.middleware.attempt import Attempt
from workers.middleware.stopwatch import Stopwatch

EVERY_S: Final = 0.1
LATE_S: Final = 0.5
"""Lateness of a look from which on it counts as time in which nothing could run."""

_PARTS: Final = 4

OnHard = Callable[[Seat, Attempt], object]


class EventLoop(Protocol):
    """The event loop, from another thread."""

    def post(self, step: Callable[..., object], *args: object) -> None:
        """Have the loop call something soon."""

    def current_task(self) -> asyncio.Task[object] | None:
        """Return the task that the loop runs now."""

    def current_seat(self) -> Seat | None:
        """Return the seat whose job the loop runs now."""

    def held_up(self) -> None:
        """Know that a job holds the loop up for good."""


@dataclass(frozen=True, slots=True)
class _Struck:
    """A seat that was struck, with what it ran; at ``hard_s`` that must have ended."""

    seat: Seat
    attempt: Attempt
    bound: object
    hard_s: float

    def goes_on(self) -> bool:
        """Say whether it still runs, interrupted for the same reason."""
        bound = self.bound
        return bound is not None and self.seat.attempt is self.attempt and self.seat.watch.struck is bound


class TimeWatch(Loop):
    """The loop that looks; a service."""

    def __init__(
        self,
        threads: Sequence[Seat],
        coroutines: Sequence[Seat],
        loop: EventLoop,
        board: Board,
        on_hard: OnHard,
        clock: Clock = SYSTEM,
        outside_s: float = OUTSIDE_S,
    ) -> None:
        super().__init__("time-watch", self._round, events.loop_failed)
        self._threads = threads
        self._coroutines = coroutines
        self._loop = loop
        self._board = board
        self._on_hard = on_hard
        self._clock = clock
        self._outside = Outside((*threads, *coroutines), outside_s)
        self._looked_s = 0.0
        self._struck: list[_Struck] = []
        self._asked: dict[Seat, _Struck] = {}
        """Seats of the event loop that the loop was asked to strike and has not."""

    def _round(self, stopping: threading.Event) -> None:
        now_s = self._clock.monotonic()
        self._give_back_lost_time(now_s)
        for seat in self._threads:
            if seat.watch.due_s <= now_s:
                self._strike(seat, now_s)
        for seat in self._coroutines:
            if seat.watch.due_s <= now_s and seat not in self._asked:
                self._ask_to_strike(seat, now_s)
        if self._struck:
            self._look_at_struck(now_s)
        if self._asked:
            self._look_at_asked(now_s)
        self._look_outside(now_s)
        self._looked_s = self._clock.monotonic()
        stopping.wait(EVERY_S)

    def _give_back_lost_time(self, now_s: float) -> None:
        late_s = now_s - self._looked_s - EVERY_S
        if self._looked_s and late_s > LATE_S:
            for seat in (*self._threads, *self._coroutines):
                seat.watch.put_off(late_s)
            self._struck = [_Struck(one.seat, one.attempt, one.bound, one.hard_s + late_s) for one in self._struck]
            self._outside.put_off(late_s)

    # --- threads ------------------------------------------------------------------------------

    def _strike(self, seat: Seat, now_s: float) -> None:
        attempt = seat.attempt
        if attempt is not None and seat.watch.strike(now_s):
            bound = seat.watch.struck
            self._struck.append(_Struck(seat, attempt, bound, _hard_s(seat.watch, attempt, now_s)))
            self._tell_soft(attempt)

    def _look_at_struck(self, now_s: float) -> None:
        self._struck = [one for one in self._struck if one.goes_on()]
        for one in [one for one in self._struck if one.hard_s <= now_s]:
            self._struck.remove(one)
            self._tell_hard(one.seat, one.attempt)

    # --- the event loop -------------------------------------------------------------------------

    def _ask_to_strike(self, seat: Seat, now_s: float) -> None:
        attempt = seat.attempt
        if attempt is not None:
            asked = _Struck(seat, attempt, None, _hard_s(seat.watch, attempt, now_s))
            self._asked[seat] = asked
            self._loop.post(self._strike_task, asked)

    def _strike_task(self, asked: _Struck) -> None:
        """Cancel the job, if it still runs; on the event loop."""
        seat, attempt = asked.seat, asked.attempt
        if seat.attempt is attempt and seat.watch.strike_task(self._clock.monotonic()):
            struck = _Struck(seat, attempt, seat.watch.struck, 0.0)
            self._tell_soft(attempt)
            self._wait_a_part(struck, 1)
        self._asked.pop(seat, None)

    def _wait_a_part(self, struck: _Struck, part: int) -> None:
        asyncio.get_running_loop().call_later(struck.attempt.actor.grace_s / _PARTS, self._part_over, struck, part)

    def _part_over(self, struck: _Struck, part: int) -> None:
        if struck.goes_on():
            if part < _PARTS:
                self._wait_a_part(struck, part + 1)
            else:
                self._tell_hard(struck.seat, struck.attempt)

    def _look_at_asked(self, now_s: float) -> None:
        """Find who holds the loop up, when it does not come to what it was asked."""
        overdue = {one.seat.watch.task: one for one in list(self._asked.values()) if one.hard_s <= now_s}
        holder = overdue.get(self._loop.current_task()) if overdue else None
        if holder is not None and holder.seat.attempt is holder.attempt:
            self._asked.pop(holder.seat, None)
            self._loop.held_up()
            self._tell_hard(holder.seat, holder.attempt)

    # --- outside the actors' own code ---------------------------------------------------------------

    def _look_outside(self, now_s: float) -> None:
        for seat, attempt in self._outside.look(now_s):
            if seat in self._threads:
                self._tell_hard(seat, attempt)
            elif self._loop.current_seat() is seat:  # the others only wait for the loop that this one holds up
                self._loop.held_up()
                self._tell_hard(seat, attempt)

    # --- told -----------------------------------------------------------------------------------

    def _tell_soft(self, attempt: Attempt) -> None:
        actor = attempt.actor.name
        self._board.add(TIMES_UP, actor, "soft")
        events.emit(events.JOB_TIME_UP, **attempt.job.facts(actor))

    def _tell_hard(self, seat: Seat, attempt: Attempt) -> None:
        actor = attempt.actor
        seat.is_stuck = True
        self._board.add(TIMES_UP, actor.name, "hard")
        events.emit(events.JOB_PAST_LIMIT, **attempt.job.facts(actor.name), slot=seat.slot, grace_s=actor.grace_s)
        self._on_hard(seat, attempt)


def _hard_s(watch: Stopwatch, attempt: Attempt, now_s: float) -> float:
    """Return when the job must have ended; a step that is struck leaves it the rest of its own time."""
    return max(now_s, watch.job_due_s) + attempt.actor.grace_s
