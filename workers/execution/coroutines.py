"""Run async actors on one event loop, up to a fixed number at a time.

The loop has a thread of its own, so that no job on a worker thread holds it up. As on the threads,
an outcome that could not be decided keeps its slot and is tried again after a growing pause.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError
from typing import Any, Final

from smena.backoff import Backoff, Pause
from smena.clock import SYSTEM, Deadline
from smena.telemetry import events
from workers.execution.seat import UNKNOWN, Seat
from workers.execution.slots import LOOK_S, UNDECIDED_PAUSE, UNSETTLED_PAUSE_S
from workers.middleware.attempt import Attempt
from workers.middleware.job_task import JobTask
from workers.middleware.outcome import Outcome, Returned
from workers.middleware.verdict import SHUTDOWN_CANCEL

BEAT_S: Final = 0.5
"""How often the loop proves that it moves."""

CANCEL_S: Final = 1.0
"""How long a cancelled job may take to end."""


FAILED_PAUSE: Final = Backoff(base_s=0.01, cap_s=1.0, floor_s=0.01)
"""How long a loop that ended with an error rests before it goes on."""

OnBug = Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object]
"""What is told of an error that nobody on the loop has caught (`asyncio`'s exception handler)."""

OnFailure = Callable[[BaseException], object]
"""What is told of an error that ended the loop itself, before the loop goes on."""


class Coroutines:
    """The event loop of a process, with one seat for each job that may run at the same time."""

    def __init__(self, seats: Sequence[Seat], on_bug: OnBug | None = None, on_failure: OnFailure | None = None) -> None:
        self.name = "coroutines"
        self.tick = 0
        self._seats = tuple(seats)
        self._free = list(reversed(seats))
        self._waiting: deque[Attempt] = deque()
        self._loop = asyncio.new_event_loop()
        self._loop.time = SYSTEM.monotonic  # type: ignore[method-assign]  # asyncio's own asks `time`, which jobs patch
        self._tasks: dict[asyncio.Task[None], tuple[Seat, Attempt]] = {}
        self._is_held_up = False
        self._stopping = asyncio.Event()
        self._over = threading.Event()
        self._on_failure = on_failure
        self._failed_pause = Pause(FAILED_PAUSE)
        self._failed_at_tick = 0
        self._loop.set_exception_handler(on_bug)
        self._thread = threading.Thread(target=self._run, name="event-loop", daemon=True)

    def start(self) -> None:
        """Start the loop's thread."""
        if self._thread.ident is None and not self._loop.is_closed():
            self._thread.start()

    def put(self, attempt: Attempt) -> None:
        """Queue an attempt; from any thread. After `hand_back` it goes back to the broker."""
        self.post(self._take, attempt)

    def waiting(self) -> int:
        """Return how many attempts have not started."""
        return len(self._waiting)

    def call(self, coroutine: Coroutine[Any, Any, Any], deadline: Deadline) -> Any:
        """Run a coroutine on the loop and wait for its result; from another thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(deadline.left_s())

    def running(self) -> int:
        """Return how many attempts run now."""
        return sum(seat.busy for seat in self._seats)

    def hand_back(self) -> int:
        """Give what has not started back to the broker; return how many."""
        count = len(self._waiting)
        self.post(self._hand_back)
        return count

    def finish(self, deadline: Deadline) -> bool:
        """Wait for what runs, but for what is stuck; at the deadline cancel the rest, whose jobs go back to the broker.

        Nothing on a loop that is held up can end, so it is not waited for.
        """
        self.hand_back()
        if not self._thread.is_alive():
            return True
        ended = asyncio.run_coroutine_threadsafe(self._ended(deadline), self._loop)
        give_up = _with_grace(deadline)
        while not self._is_held_up and not give_up.passed():
            try:
                return ended.result(min(LOOK_S, give_up.left_s()))
            except TimeoutError:
                continue
            except CancelledError:  # by a job that cancels all tasks of the loop
                ended = asyncio.run_coroutine_threadsafe(self._ended(deadline), self._loop)
        return False

    def stop(self, deadline: Deadline) -> bool:
        """Finish, then end the loop and its thread."""
        if self._thread.ident is None:
            self._loop.close()
            return True
        ended = self.finish(deadline)
        self._over.set()
        self.post(self._loop.stop)
        self._thread.join(max(deadline.left_s(), CANCEL_S))
        return ended and not self._thread.is_alive()

    def current_task(self) -> asyncio.Task[Any] | None:
        """Return the task that the loop runs now; from another thread."""
        return asyncio.current_task(self._loop)

    def current_seat(self) -> Seat | None:
        """Return the seat whose job the loop runs now; from another thread."""
        task = self.current_task()
        return None if task is None or (at := self._tasks.get(task)) is None else at[0]

    def held_up(self) -> None:
        """Know that a job holds the loop up for good; from another thread."""
        self._is_held_up = True

    def post(self, step: Callable[..., object], *args: object) -> None:
        """Have the loop call something soon; from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(step, *args)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        for seat in self._seats:
            seat.sit_down()
        self._loop.call_soon(self._beat)
        while not self._over.is_set():
            try:
                self._loop.run_forever()  # ends too when a job stops the loop, or exits in a task of its own
            except BaseException as error:  # noqa: BLE001 - the seam: the loop goes on without what ended it
                self._failed(error)
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def _failed(self, error: BaseException) -> None:
        if self._on_failure is not None:
            self._on_failure(error)
        events.loop_failed(self.name, error)
        if self.tick != self._failed_at_tick:
            self._failed_at_tick = self.tick
            self._failed_pause.reset()
        self._over.wait(self._failed_pause.next_s())

    def _beat(self) -> None:
        self.tick += 1
        self._loop.call_later(BEAT_S, self._beat)

    def _take(self, attempt: Attempt) -> None:
        if self._stopping.is_set():
            attempt.delivery.give_back()
            return
        self._waiting.append(attempt)
        self._fill()

    def _fill(self) -> None:
        while self._waiting and self._free:
            seat = self._free.pop()
            attempt = self._waiting.popleft()
            task = JobTask(self._work(seat, attempt), loop=self._loop)
            self._tasks[task] = seat, attempt
            task.add_done_callback(self._leave)

    async def _work(self, seat: Seat, attempt: Attempt) -> None:
        if type(outcome := await seat.run_async(attempt)) is Returned:
            await self._insist(seat, attempt, outcome)

    def _leave(self, task: asyncio.Task[None]) -> None:
        """Free the seat; not in the task itself, whose first line is never reached when a job cancels all tasks."""
        seat, attempt = self._tasks.pop(task)
        self._free.append(seat)
        if task.cancelled():  # before the job began or while it waited to try again: a job's own end is an outcome
            attempt.delivery.give_back()
        if not self._stopping.is_set():
            self._fill()

    async def _insist(self, seat: Seat, attempt: Attempt, outcome: Outcome) -> None:
        """Do as the threads do (`Slots`)."""
        pause = Pause(UNDECIDED_PAUSE)
        while type(outcome) is Returned and outcome.why != UNKNOWN and attempt.delivery.alive():
            if await self._stopped_within(pause.next_s() if attempt.outcome is None else UNSETTLED_PAUSE_S):
                break
            attempt = attempt.again()
            outcome = await seat.run_async(attempt)
        if type(outcome) is Returned:
            await self._stopped_within(UNSETTLED_PAUSE_S if outcome.why == UNKNOWN else 0.0)
            attempt.delivery.give_back()

    async def _stopped_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def _hand_back(self) -> None:
        self._stopping.set()
        while self._waiting:
            self._waiting.popleft().delivery.give_back()

    async def _ended(self, deadline: Deadline) -> bool:
        """Wait for the running jobs, then cancel them: a cancelled job is `Returned`."""
        while (running := self._not_stuck()) and not deadline.passed():
            await asyncio.wait(running, timeout=min(LOOK_S, deadline.left_s()))
        unfinished = self._not_stuck()
        for task in unfinished:
            task.cancel(SHUTDOWN_CANCEL)
        if unfinished:
            await asyncio.wait(unfinished, timeout=CANCEL_S)
        return not unfinished and not self._tasks

    def _not_stuck(self) -> list[asyncio.Task[None]]:
        return [task for task, (seat, _) in self._tasks.items() if not seat.is_stuck]


def _with_grace(deadline: Deadline) -> Deadline:
    """Give those that are cancelled at the deadline a moment to end."""
    return Deadline(deadline.clock, max(deadline.at_s, deadline.clock.monotonic()) + 2 * CANCEL_S)
