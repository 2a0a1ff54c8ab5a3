"""Be one worker process: deliveries in, jobs run, outcomes settled; and the way to end in order.

The parts are handed in built and joined; this file knows only their order. A drain has one budget for
all its steps: consumers are cancelled first, what has not started goes back, what runs may finish, what
it came to is settled. What is not done by then stays with the broker, and costs nobody an attempt.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from smena.clock import SYSTEM, Deadline
from smena.lifecycle import Group, Service
from smena.telemetry import events

CLOSE_S: Final = 2.0
"""What closing may take: the services at once, the connections beyond the drain's own budget."""


class Source(Protocol):
    """Where deliveries come from."""

    def start(self) -> None:
        """Begin to take messages."""

    def cancel(self, done: Callable[[], object]) -> None:
        """Take no more for ever; ``done`` is called when nothing more can come."""

    def flush(self, done: Callable[[], object]) -> None:
        """Tell the broker all that was settled; ``done`` is called when that is sent."""


class Runner(Protocol):
    """A part that holds deliveries: some wait to start, some run."""

    def waiting(self) -> int:
        """Return how many have not started."""

    def running(self) -> int:
        """Return how many run now."""

    def hand_back(self) -> int:
        """Give what has not started back to the broker; return how many. Nothing starts after that."""

    def finish(self, deadline: Deadline) -> bool:
        """Wait for what runs; return whether all of it ended."""


class Worker:
    """The parts of a worker process in their order; a service.

    ``lines`` start first and end last: the connections, and what tells others that this process lives.
    """

    def __init__(
        self,
        lines: Sequence[Service],
        services: Sequence[Service],
        settler: Service,
        runners: Sequence[Runner],
        source: Source,
    ) -> None:
        self.name = "worker"
        self._lines = Group("lines", lines, lambda: Deadline.within(CLOSE_S, SYSTEM))
        self._services = Group("worker", services, lambda: Deadline.within(CLOSE_S, SYSTEM))
        self._settler = settler
        self._runners = runners
        self._source = source
        self._taking = False

    def start(self) -> None:
        """Start everything, the consumer last; if a part cannot start, its error rises."""
        self._lines.start()
        try:
            self._services.start()
        except BaseException:
            self._lines.stop(Deadline.within(CLOSE_S, SYSTEM))
            raise
        self._source.start()
        self._taking = True

    def stop(self, deadline: Deadline) -> bool:
        """Drain, then close what the parts stood on; return whether every running job ended and was settled.

        A job that still runs keeps its message until the process has ended: the connections are left open, for as
        soon as they close the broker gives the message to another, and two would run the job at once (P28).
        """
        drained = self._drain(deadline) if self._taking else True
        self._taking = False
        closed = self._services.stop(Deadline.within(CLOSE_S, deadline.clock))
        if self.running():
            self._wait_for(self._source.flush, Deadline.within(CLOSE_S, SYSTEM))
            return False
        # A broker that is slow to say goodbye spends what the drain has left: no job was interrupted by it.
        parting = Deadline(deadline.clock, max(deadline.at_s, deadline.clock.monotonic()) + CLOSE_S)
        return self._lines.stop(parting) and drained and closed

    def hand_back(self) -> None:
        """Start nothing more in this process, for good; what runs goes on."""
        for runner in self._runners:
            runner.hand_back()

    def running(self) -> int:
        """Return how many jobs run now."""
        return sum(runner.running() for runner in self._runners)

    def waiting(self) -> int:
        """Return how many deliveries have not started."""
        return sum(runner.waiting() for runner in self._runners)

    def _drain(self, deadline: Deadline) -> bool:
        budget_s, running = deadline.left_s(), self.running()
        events.emit(events.DRAIN_STARTED, running=running, unstarted=self.waiting(), budget_s=round(budget_s, 3))
        self._take_no_more(deadline)
        handed_back = sum(runner.hand_back() for runner in self._runners)
        events.emit(events.DRAIN_HANDED_BACK, jobs=handed_back)
        ended = [runner.finish(deadline) for runner in self._runners]
        left = self.running()
        settled = self._settler.stop(deadline)
        events.emit(
            events.DRAIN_FINISHED,
            seconds=round(budget_s - deadline.left_s(), 3),
            finished=max(0, running - left),
            interrupted=left,
        )
        return all(ended) and settled

    def _take_no_more(self, deadline: Deadline) -> None:
        """Cancel the consumers; a broker that does not answer is not waited for beyond a moment."""
        self._wait_for(self._source.cancel, deadline)

    def _wait_for(self, ask: Callable[[Callable[[], object]], object], deadline: Deadline) -> None:
        answered = threading.Event()
        ask(answered.set)
        answered.wait(min(CLOSE_S, deadline.left_s()))
