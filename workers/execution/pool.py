"""Run CPU steps in processes beside the worker, so that none holds its link, its event loop or its neighbours.

A step is lent a process and talks to it directly; each process has a socket of its own, so a process that dies, by
whatever hand and at whatever moment, fails the one step that it ran. A step that had not begun is given to another
process. A step that is out of time, cancelled or out of memory is ended with all the processes it has started, and
only then does its caller hear of it.

Nothing is started before the first step. When several steps in a row died or no process comes up, the pool counts as
broken: it takes no step (`PoolBroken`: the job waits, and spends no attempt), `is_broken` makes the worker unready and
stop pulling, and an empty step is tried until one works.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from smena.clock import SYSTEM, Clock, Deadline
from smena.errors import OutOfMemory, PoolBroken, Shutdown, SmenaError, StepDied, TimedOut
from smena.settings.groups import Pool as Bounds
from smena.telemetry import events
from workers.execution import pool_frames
from workers.execution.pool_desk import Budget, Desk, refuse
from workers.execution.pool_keeper import Keeper
from workers.execution.pool_process import Ended, Ending, PoolProcess, Server

T = TypeVar("T")

DEATHS_IN_A_ROW: Final = 3
"""So many steps that died, or starts that failed, with none between that came back, are not the steps' doing."""

_KILL_S: Final = 10.0


class Pool:
    """The process pool of one worker process; a service that starts nothing by itself."""

    def __init__(
        self,
        bounds: Bounds,
        launch: Callable[[], Server],
        tell_broken: Callable[[bool], None],
        clock: Clock = SYSTEM,
    ) -> None:
        self.name = "pool"
        self._bounds = bounds
        self._size = bounds.processes or len(os.sched_getaffinity(0))
        self._tell_broken = tell_broken
        self._clock = clock
        self._keeper = Keeper(
            launch, self, max_memory_mib=bounds.max_memory_mib, recycle_memory_mib=bounds.recycle_memory_mib
        )
        self._desk = Desk(bounds, self._size, self._want_one, self._discard, clock)
        self._deaths = 0
        self._asked = 0

    @property
    def is_broken(self) -> bool:
        """Say whether it takes no step now."""
        return self._desk.closed is not None

    def start(self) -> None:
        """Do nothing: the first step starts what it needs."""

    def run(
        self, fn: Callable[..., T], args: tuple[Any, ...], timeout_s: float | None = None, within_s: float | None = None
    ) -> T:
        """Run a step and return its result, or raise its error; for a thread.

        ``within_s`` is the time its job has left: it bounds the wait for a process and the step together.
        """
        frame = pool_frames.request(fn, args, self._bounds.max_argument_bytes)
        budget = Budget(self._bounds, timeout_s, within_s, self._clock)
        for _ in range(self._size + 2):
            process = self._desk.lend(budget)
            limit_s, began_s = budget.step_s(), self._clock.monotonic()
            try:
                kind, body = process.call(frame, limit_s)
            except BaseException as error:  # noqa: BLE001 - raised again when the step is dead
                ending = self._discard(process).result(_KILL_S)
                self._judge(process, error, ending, fn, limit_s, began_s)
                continue
            self._give_back(process, kind)
            result: T = pool_frames.value(kind, body, pool_frames.name_of(fn), self._bounds.max_result_bytes)
            return result
        raise PoolBroken("no process took the step", step=pool_frames.name_of(fn))

    async def arun(
        self, fn: Callable[..., T], args: tuple[Any, ...], timeout_s: float | None = None, within_s: float | None = None
    ) -> T:
        """Run a step without holding the event loop; the twin of `run`."""
        frame = pool_frames.request(fn, args, self._bounds.max_argument_bytes)
        budget = Budget(self._bounds, timeout_s, within_s, self._clock)
        for _ in range(self._size + 2):
            process = await self._desk.alend(budget)
            limit_s, began_s = budget.step_s(), self._clock.monotonic()
            try:
                kind, body = await process.acall(frame, limit_s)
            except BaseException as error:  # noqa: BLE001 - raised again when the step is dead
                # Shielded, for the step is to be dead before a cancelled job is told so.
                ending = await asyncio.shield(asyncio.wrap_future(self._discard(process)))
                self._judge(process, error, ending, fn, limit_s, began_s)
                continue
            self._give_back(process, kind)
            result: T = pool_frames.value(kind, body, pool_frames.name_of(fn), self._bounds.max_result_bytes)
            return result
        raise PoolBroken("no process took the step", step=pool_frames.name_of(fn))

    def stop(self, deadline: Deadline) -> bool:
        """End all processes; a step that still runs ends as `Shutdown`, so its job goes back."""
        idle, busy = self._desk.end()
        return self._keeper.stop(deadline, idle, busy)

    @property
    def tick(self) -> int:
        """Rounds of the keeper; as long as it had nothing to do, a number that moves by being asked for."""
        if not self._keeper.tick:
            self._asked -= 1
        return self._keeper.tick or self._asked

    def standing(self) -> Mapping[str, float]:
        """Return how many processes are busy and idle, and how many steps wait."""
        return self._desk.standing()

    # --- what the keeper tells

    def busy(self) -> list[PoolProcess]:
        """Return the processes that run a step now."""
        return self._desk.busy()

    def started(self, process: PoolProcess) -> None:
        """Take a new process."""
        events.emit(events.POOL_GREW, pool_process=process.pid, processes=self._desk.take(process))

    def not_started(self, error: PoolBroken) -> None:
        """Count a process that does not come, and let nobody wait for it."""
        in_vain = self._desk.not_coming()
        self._count_death(error)
        refuse(in_vain, error)

    def mended(self) -> None:
        """Take steps again."""
        self._deaths = 0
        self._desk.open()
        events.emit(events.POOL_MENDED)
        self._tell_broken(self.is_broken)

    # --- lending

    def _want_one(self) -> None:
        self._keeper.start()
        self._keeper.grow()

    def _give_back(self, process: PoolProcess, kind: bytes) -> None:
        self._deaths = 0
        is_worn = process.is_worn or process.calls >= self._bounds.max_calls
        if is_worn or process.condemned or kind == pool_frames.Kind.OUT_OF_MEMORY:
            self._discard(process)
        else:
            self._desk.offer(process)

    def _discard(self, process: PoolProcess) -> Future[Ending]:
        """End a process and, if somebody waits, have another in its place."""
        self._desk.forget(process)
        ended = self._keeper.end(process)
        self._desk.grow()
        return ended

    # --- judging

    def _judge(
        self,
        process: PoolProcess,
        error: BaseException,
        ending: Ending,
        fn: Callable[..., Any],
        limit_s: float,
        began_s: float,
    ) -> None:
        """Raise what a step came to that got no answer; return if it had not begun and is to be given to another."""
        step, ran_s = pool_frames.name_of(fn), round(self._clock.monotonic() - began_s, 3)
        if self._desk.is_over:
            raise Shutdown from error
        if not isinstance(error, Ended | TimeoutError):
            self._tell(step, type(error).__name__, ending, ran_s)
            raise error
        why = self._why(process, error, ending, step, limit_s, ran_s)
        if why is None:
            return
        self._tell(step, why.code, ending, ran_s)
        if isinstance(why, StepDied):
            self._count_death(why)
        raise why from None

    def _why(
        self, process: PoolProcess, error: BaseException, ending: Ending, step: str, limit_s: float, ran_s: float
    ) -> SmenaError | None:
        if isinstance(process.condemned, OutOfMemory):
            return OutOfMemory(step=step, **process.condemned.facts)
        if ending.out_of_memory and not process.condemned:
            return OutOfMemory(step=step, peak_mib=ending.peak_mib)
        if isinstance(error, TimeoutError) or process.condemned:
            return TimedOut(step=step, timeout_s=limit_s)
        if not process.began():
            return None
        return StepDied(step=step, how=ending.how, peak_mib=ending.peak_mib, ran_s=ran_s)

    def _tell(self, step: str, why: str, ending: Ending, ran_s: float) -> None:
        events.emit(events.POOL_STEP_ENDED, step=step, why=why, how=ending.how, peak_mib=ending.peak_mib, ran_s=ran_s)

    def _count_death(self, error: SmenaError) -> None:
        self._deaths += 1
        if self._deaths < DEATHS_IN_A_ROW or self._desk.is_over:
            return
        if not self._desk.close(PoolBroken(str(error))):
            return
        events.emit(events.POOL_BROKEN, deaths=self._deaths, error=str(error))
        self._tell_broken(self.is_broken)
        self._keeper.start()
        self._keeper.mend()
