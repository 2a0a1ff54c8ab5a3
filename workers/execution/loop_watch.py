"""Measure how late a loop comes to what is posted to it, and say which code held it up.

A watch on a thread of its own posts to the loop and notes how long the loop takes to come to it. While it waits
longer than the bound it looks at the stack of the loop's thread, once for each time the loop is held: the coroutine
to blame is in it. A loop whose C code holds the interpreter cannot be looked at from inside; the supervisor sees that
by its tick.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from typing import Final

from smena.clock import SYSTEM, Clock
from smena.lifecycle import Loop
from smena.telemetry import events

EVERY_S: Final = 0.1
KEPT: Final = 100
"""Measures that the gauge looks back on: those of the last ten seconds."""

_FRAMES: Final = 12

Post = Callable[[Callable[[], object]], object]


class LoopWatch(Loop):
    """The watch over one loop; a service.

    ``post`` has the loop call something soon, from any thread; it is also how the loop's thread is found.
    """

    def __init__(self, name: str, post: Post, blocked_s: float, clock: Clock = SYSTEM) -> None:
        super().__init__(f"{name}-watch", self._round, events.loop_failed)
        self.watched = name
        self._post = post
        self._blocked_s = blocked_s
        self._clock = clock
        self._lags: deque[float] = deque(maxlen=KEPT)
        self._thread_id = 0

    def worst_s(self) -> float:
        """Return the longest lag of late."""
        return max(list(self._lags), default=0.0)

    def lags_s(self) -> list[float]:
        """Return the lags of late, oldest first."""
        return list(self._lags)

    def _round(self, stopping: threading.Event) -> None:
        posted_s, came = self._clock.monotonic(), threading.Event()
        lag_s = 0.0

        def note() -> None:
            nonlocal lag_s
            lag_s = self._clock.monotonic() - posted_s
            self._thread_id = threading.get_ident()
            came.set()

        self._post(note)
        if not came.wait(self._blocked_s) and not stopping.is_set():
            self._tell(self._clock.monotonic() - posted_s)
        while not came.wait(EVERY_S) and not stopping.is_set():
            self._lags.append(self._clock.monotonic() - posted_s)
        if came.is_set():
            self._lags.append(lag_s)
        stopping.wait(EVERY_S)

    def _tell(self, blocked_s: float) -> None:
        frame = sys._current_frames().get(self._thread_id)  # noqa: SLF001 - the interpreter's documented way
        stack = [] if frame is None else traceback.extract_stack(frame)[-_FRAMES:]
        events.emit(
            events.LOOP_BLOCKED,
            loop=self.watched,
            blocked_s=round(blocked_s, 3),
            stack=[f"{place.filename}:{place.lineno} in {place.name}" for place in reversed(stack)],
        )
