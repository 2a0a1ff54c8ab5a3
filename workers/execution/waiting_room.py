"""Hold attempts that may not start yet, until a look says where each goes.

A look is one query for many, so it is made on a thread of its own, in batches. Who looks takes out of the batch each
attempt that it has sent on; the others wait on, also when the look failed: not to know is no reason to run. In a drain
what waits goes back to the broker.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from smena.clock import Deadline
from smena.lifecycle import Loop
from smena.telemetry import events
from workers.middleware.attempt import Attempt

BATCH: Final = 500
IDLE_S: Final = 0.5

Look = Callable[[list[Attempt]], None]
"""Send attempts on, and take out of the list each that has gone."""


class WaitingRoom(Loop):
    """The attempts that wait for a look; a service and a runner."""

    def __init__(self, name: str, look: Look, again_s: float = IDLE_S) -> None:
        """Let ``look`` see all that wait when one comes, and every ``again_s`` as long as somebody waits."""
        super().__init__(name, self._round, events.loop_failed)
        self._look = look
        self._again_s = again_s
        self._waiting: deque[Attempt] = deque()
        self._cue = threading.Event()
        self._is_over = False

    def put(self, attempt: Attempt) -> None:
        """Queue an attempt for the next look; from any thread. After `hand_back` it goes back to the broker."""
        self._waiting.append(attempt)
        self._cue.set()
        if self._is_over:
            self.hand_back()

    def waiting(self) -> int:
        """Return how many attempts wait."""
        return len(self._waiting)

    def running(self) -> int:
        """Return 0: nothing runs here."""
        return 0

    def hand_back(self) -> int:
        """Give what waits back to the broker; return how many."""
        self._is_over = True
        self.ask_to_stop()
        self._cue.set()
        count = 0
        while (attempt := self._first()) is not None:
            attempt.delivery.give_back()
            count += 1
        return count

    def _first(self) -> Attempt | None:
        try:
            return self._waiting.popleft()
        except IndexError:
            return None

    def finish(self, deadline: Deadline) -> bool:
        """Hand back what waits and join the thread."""
        self.hand_back()
        return super().stop(deadline)

    def stop(self, deadline: Deadline) -> bool:
        """Finish."""
        return self.finish(deadline)

    def _round(self, stopping: threading.Event) -> None:
        self._cue.wait(self._again_s if self._waiting else IDLE_S)
        self._cue.clear()
        for _ in range(0, len(self._waiting), BATCH):
            if stopping.is_set():
                return
            batch: list[Attempt] = []
            while len(batch) < BATCH and (attempt := self._first()) is not None:
                batch.append(attempt)
            try:
                self._look(batch)
            finally:
                self._waiting.extend(batch)
                if self._is_over:
                    self.hand_back()
