"""Find that a process has been stopped (SIGSTOP, a terminal's stop, a debugger) for longer than anybody means to.

An operator who stops a process lets it go on or kills it. A job that stops its own process does neither: nothing in
there runs any more, its time limits included, so that only others can end it. The time counts from the last look that
found the process not stopped. Whoever has not looked for a while, because he stood still himself, begins anew: the
whole host, or container, may have been stopped with him.
"""

from __future__ import annotations

from smena.clock import Clock
from workers.process import processor
from workers.process.standstill import MISSED_S


class Stoppage:
    """The watch over one process, which may be stopped for ``bound_s``."""

    def __init__(self, pid: int, bound_s: float, clock: Clock) -> None:
        self.stopped_s = 0.0
        """For how long it has been stopped, as last seen; 0 while it is not."""
        self._pid = pid
        self._bound_s = bound_s
        self._clock = clock
        self._since_s = self._looked_s = clock.monotonic()

    def look(self) -> bool:
        """Look at it; say whether it has been stopped for too long by now."""
        now_s = self._clock.monotonic()
        has_missed, self._looked_s = now_s - self._looked_s > MISSED_S, now_s
        if has_missed or not processor.is_stopped(self._pid):
            self._since_s = now_s
        self.stopped_s = now_s - self._since_s
        return self.stopped_s > self._bound_s


def told(how: str) -> str:
    """Say of a process that was killed while it was stopped how it ended."""
    return f"{how} after it was stopped"
