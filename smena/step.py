"""Give a part of a job a time of its own: ``with ctx.step("provider", timeout_s=5):``.

When the time is up the block is interrupted and raises `TimedOut`, which is `Transient`; a coroutine writes ``async
with``. In a thread nothing can interrupt a call that waits in C code, such as a read from a silent socket: hand such
calls `left_s` as their own timeout. How long each step took is counted, by actor and step. Outside a worker (in a unit
test) a plain step interrupts nothing.
"""

from __future__ import annotations

import asyncio
import math
from types import TracebackType
from typing import Protocol

from smena.clock import Clock
from smena.errors import Misused, TimedOut, TimeUp


class Watch(Protocol):
    """What interrupts the job, as its steps use it (`workers/middleware/stopwatch.py`)."""

    def tighten(self, due_s: float, bound: object) -> tuple[float, object] | None:
        """Interrupt at ``due_s`` (monotonic), if that is sooner; return what `loosen` is to put back."""

    def loosen(self, before: tuple[float, object], bound: object) -> bool:
        """Put back what was before `tighten`; return whether it has interrupted since. May raise `TimeUp`."""

    def note_step(self, actor: str, step: str, seconds: float) -> None:
        """Count how long a step took."""


class Budget(Protocol):
    """The job's own time; ``due_s`` (monotonic) is None without end."""

    actor: str
    clock: Clock
    due_s: float | None


class Step:
    """One step; it is entered once."""

    def __init__(self, name: str, timeout_s: float, budget: Budget, watch: Watch | None) -> None:
        if not 0 < timeout_s < math.inf:
            raise Misused("a step's timeout is a number of seconds above zero", step=name, timeout_s=timeout_s)
        self.name = name
        self._timeout_s = timeout_s
        self._budget = budget
        self._watch = watch
        self._began_s = 0.0
        self._before: tuple[float, object] | None = None
        self._job_due_s: float | None = None
        self._alarm: asyncio.Timeout | None = None

    def left_s(self) -> float:
        """Return the seconds left to the step, or to its job if that is less; never below zero."""
        due_s = self._budget.due_s
        return 0.0 if due_s is None else max(0.0, due_s - self._budget.clock.monotonic())

    def timed_out(self) -> TimedOut:
        """Return the error for a step whose time is up."""
        return TimedOut(actor=self._budget.actor, step=self.name, timeout_s=self._timeout_s)

    def __enter__(self) -> Step:
        if _on_event_loop():
            raise Misused("a coroutine's step is entered with `async with`", step=self.name)
        due_s = self._begin()
        if self._watch is not None:
            self._before = self._watch.tighten(due_s, self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            struck = self._loosened()
        except TimeUp:  # it came late, when the block had ended
            self._loosened()
            struck = True
        self._end()
        if struck and isinstance(error, TimeUp):
            raise self.timed_out() from error

    async def __aenter__(self) -> Step:
        self._begin()
        self._alarm = asyncio.timeout(self._timeout_s)
        await self._alarm.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._alarm is not None, "it was entered"  # noqa: S101
        try:
            await self._alarm.__aexit__(kind, error, traceback)
        except TimeoutError as up:
            raise self.timed_out() from up
        finally:
            self._end()

    def _begin(self) -> float:
        budget = self._budget
        self._began_s = budget.clock.monotonic()
        self._job_due_s = budget.due_s
        due_s = self._began_s + self._timeout_s
        budget.due_s = due_s if budget.due_s is None else min(due_s, budget.due_s)
        return due_s

    def _loosened(self) -> bool:
        return self._before is not None and self._watch is not None and self._watch.loosen(self._before, self)

    def _end(self) -> None:
        self._budget.due_s = self._job_due_s
        if self._watch is not None:
            passed_s = self._budget.clock.monotonic() - self._began_s
            self._watch.note_step(self._budget.actor, self.name, passed_s)


def _on_event_loop() -> bool:
    try:
        return asyncio.current_task() is not None
    except RuntimeError:  # no loop runs in this thread
        return False
