"""Run plain actors on a fixed number of threads.

All threads take from one queue, so a long job holds back nobody. An outcome that could not be decided
(`Returned` while the process goes on) keeps its slot and is tried again after a growing pause: handing
the message back would only bring it straight to the next worker.

Stopping has two steps: `hand_back` gives up what has not started, `stop` waits for what runs.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from queue import Empty, SimpleQueue

from smena.backoff import Backoff, Pause
from smena.clock import Deadline
from workers.execution.seat import UNKNOWN, Seat
from workers.middleware.attempt import Attempt
from workers.middleware.outcome import Outcome, Returned

UNDECIDED_PAUSE = Backoff(base_s=0.2, cap_s=5.0, floor_s=0.1)
"""How long a slot waits before it tries again what could not be decided."""

UNSETTLED_PAUSE_S = 5.0
"""How long a job that could not be settled keeps its slot, so that it does not go round in a hurry."""


LOOK_S = 0.1
"""How often a drain looks whether what it waits for is stuck."""


class Slots:
    """The worker threads of a process, one for each seat."""

    def __init__(self, seats: Sequence[Seat]) -> None:
        self.name = "slots"
        self._seats = tuple(seats)
        self._waiting: SimpleQueue[Attempt | None] = SimpleQueue()
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, args=(seat,), name=f"slot-{seat.slot}", daemon=True) for seat in seats
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            if thread.ident is None and not self._stopping.is_set():
                thread.start()

    def put(self, attempt: Attempt) -> None:
        """Queue an attempt; from any thread. After `hand_back` it goes back to the broker."""
        self._waiting.put(attempt)
        if self._stopping.is_set():
            self.hand_back()  # now, and not when the drain ends: an ordered job's partition is handed over before that

    def ending(self) -> bool:
        """Say whether the drain has begun."""
        return self._stopping.is_set()

    def waiting(self) -> int:
        """Return how many attempts have not started."""
        return self._waiting.qsize()

    def running(self) -> int:
        """Return how many attempts run now."""
        return sum(seat.busy for seat in self._seats)

    def hand_back(self) -> int:
        """Give what has not started back to the broker, let idle threads end; return how many."""
        self._stopping.set()
        count = sum(1 for attempt in self._drained() if _gave_back(attempt))
        for _ in self._threads:
            self._waiting.put(None)
        return count

    def finish(self, deadline: Deadline) -> bool:
        """Hand back what waits, and wait for what runs, but for what is stuck."""
        self.hand_back()
        for thread, seat in zip(self._threads, self._seats, strict=True):
            while thread.is_alive() and not seat.is_stuck and not deadline.passed():
                thread.join(min(LOOK_S, deadline.left_s()))
        return not any(thread.is_alive() for thread in self._threads)

    def stop(self, deadline: Deadline) -> bool:
        """Finish; the threads end with their last job."""
        return self.finish(deadline)

    def _drained(self) -> list[Attempt | None]:
        drained: list[Attempt | None] = []
        while True:
            try:
                drained.append(self._waiting.get_nowait())
            except Empty:
                return drained

    def _work(self, seat: Seat) -> None:
        seat.sit_down()
        take = self._waiting.get
        while (attempt := take()) is not None:
            if self._stopping.is_set():
                attempt.delivery.give_back()
            elif type(outcome := seat.run(attempt)) is Returned:
                self._insist(seat, attempt, outcome)

    def _insist(self, seat: Seat, attempt: Attempt, outcome: Outcome) -> None:
        """Try again what could not be decided, until it can be or the process ends.

        What ran and could not be settled is not run again here: it is only settled, or, where nobody knows what it came
        to, goes back as it came.
        """
        pause = Pause(UNDECIDED_PAUSE)
        while type(outcome) is Returned and outcome.why != UNKNOWN and attempt.delivery.alive():
            if self._stopping.wait(pause.next_s() if attempt.outcome is None else UNSETTLED_PAUSE_S):
                break
            attempt = attempt.again()  # and that one again: it knows what it came to, and how often that was lost
            outcome = seat.run(attempt)
        if type(outcome) is Returned:
            self._stopping.wait(UNSETTLED_PAUSE_S if outcome.why == UNKNOWN else 0.0)
            attempt.delivery.give_back()


def _gave_back(attempt: Attempt | None) -> bool:
    if attempt is None:
        return False
    attempt.delivery.give_back()
    return True
