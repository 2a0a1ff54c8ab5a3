"""Lend pool processes: who has which, which are free, and which steps wait for one, in the order they came.

A step waits no longer than it may (`Budget`), and only so many wait. A process that comes back goes to whoever waits
first. When the pool is broken nobody waits: `closed` says why.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as WaitTimeout
from typing import Final

from smena.clock import Clock, Deadline
from smena.errors import PoolBroken, PoolBusy, Shutdown
from smena.settings.groups import Pool as Bounds
from workers.execution.pool_process import PoolProcess

FORGOTTEN_S: Final = 10.0
"""How long after its limit a step whose caller did not end it is ended by the pool."""

_LEAST_S: Final = 0.001
"""A step whose time ran out while it waited still needs a timeout that means one."""


class Budget:
    """What a step may take, and the wait for a process to run it: no longer than its job has."""

    __slots__ = ("_job", "_timeout_s", "_wait_s")

    def __init__(self, bounds: Bounds, timeout_s: float | None, within_s: float | None, clock: Clock) -> None:
        self._timeout_s = bounds.timeout_s if timeout_s is None else timeout_s
        self._wait_s = bounds.wait_s
        self._job = None if within_s is None else Deadline.within(within_s, clock)

    def step_s(self) -> float:
        """Return how long the step may run, from now."""
        return self._timeout_s if self._job is None else max(_LEAST_S, min(self._timeout_s, self._job.left_s()))

    def wait_s(self) -> float:
        """Return how long it may wait, from now."""
        return self._wait_s if self._job is None else min(self._wait_s, self._job.left_s())


class Desk:
    """The processes of one pool. For all threads.

    ``want_one`` is called, outside of any lock, when one more is to be started; `take` or `not_coming` follows.
    ``discard`` is given what comes back when nobody may have it any more.
    """

    def __init__(
        self,
        bounds: Bounds,
        size: int,
        want_one: Callable[[], object],
        discard: Callable[[PoolProcess], object],
        clock: Clock,
    ) -> None:
        self.closed: PoolBroken | None = None
        """Why nothing is lent now."""
        self.is_over = False
        self._bounds = bounds
        self._size = size
        self._want_one = want_one
        self._discard = discard
        self._clock = clock
        self._changing = threading.Lock()
        self._living: set[PoolProcess] = set()
        self._idle: list[PoolProcess] = []
        self._starting = 0
        self._waiting: deque[Future[PoolProcess]] = deque()

    # --- for who has a step

    def lend(self, budget: Budget) -> PoolProcess:
        """Return a process, when one is free; raises `PoolBusy`, `PoolBroken` or `Shutdown`."""
        return self._free(budget) or self._wait(budget)

    async def alend(self, budget: Budget) -> PoolProcess:
        """Do the same without holding the event loop."""
        return self._free(budget) or await self._await(budget)

    def offer(self, process: PoolProcess) -> None:
        """Take a process back, for whoever waits first."""
        process.free_by_s = float("inf")
        while True:
            with self._changing:
                if not self._waiting and not self.is_over:
                    self._idle.append(process)
                    return
                if not self._waiting:
                    break
                waiter = self._waiting.popleft()
            if waiter.set_running_or_notify_cancel():
                waiter.set_result(process)
                return
        self._discard(process)

    # --- for who keeps the processes

    def take(self, process: PoolProcess) -> int:
        """Take a new process; return how many there are now."""
        with self._changing:
            self._starting -= 1
            self._living.add(process)
            count = len(self._living)
        self.offer(process)
        return count

    def not_coming(self) -> list[Future[PoolProcess]]:
        """Know that one that was wanted does not come; return who waits in vain, to be told by `refuse`."""
        with self._changing:
            self._starting -= 1
            if self._living or self._starting:
                return []
            return self._all_waiting()

    def forget(self, process: PoolProcess) -> None:
        """Know that a process is being ended."""
        with self._changing:
            self._living.discard(process)

    def grow(self) -> None:
        """Have one more process started if somebody waits and there may be one more."""
        with self._changing:
            has_room = len(self._living) + self._starting < self._size
            if self.is_over or not has_room or self._starting >= len(self._waiting):
                return
            self._starting += 1
        self._want_one()

    def busy(self) -> list[PoolProcess]:
        """Return the processes that run a step now."""
        with self._changing:
            return list(self._living.difference(self._idle))

    def standing(self) -> Mapping[str, float]:
        """Return how many processes are busy and idle, and how many steps wait."""
        with self._changing:
            idle, living, waiting = len(self._idle), len(self._living), len(self._waiting)
        return {"busy": living - idle, "idle": idle, "waiting": waiting}

    def end(self) -> tuple[list[PoolProcess], list[PoolProcess]]:
        """Lend nothing any more, for good; return those that are idle and those that are busy."""
        with self._changing:
            self.is_over = True
            idle, busy = list(self._idle), list(self._living.difference(self._idle))
            self._idle.clear()
            waiting = self._all_waiting()
        refuse(waiting, Shutdown())
        return idle, busy

    def close(self, why: PoolBroken) -> bool:
        """Lend nothing until `open`; return whether that is new."""
        with self._changing:
            if self.closed is not None:
                return False
            self.closed = why
            return True

    def open(self) -> None:
        """Lend again."""
        self.closed = None

    # --- inside

    def _free(self, budget: Budget) -> PoolProcess | None:
        with self._changing:
            if self.is_over:
                raise Shutdown
            if not self._idle or self.closed is not None:
                return None
            return self._lent(self._idle.pop(), budget)

    def _wait(self, budget: Budget) -> PoolProcess:
        waiter = self._queue_up()
        try:
            process = waiter.result(budget.wait_s())
        except BaseException as error:
            self._withdraw(waiter)
            raise self._told_waiter(error) from error
        return self._lent(process, budget)

    async def _await(self, budget: Budget) -> PoolProcess:
        waiter = self._queue_up()
        try:
            async with asyncio.timeout(budget.wait_s()):  # `wait_for` of 3.11 swallows a cancellation at pick-up
                process = await asyncio.wrap_future(waiter)
        except BaseException as error:
            self._withdraw(waiter)
            raise self._told_waiter(error) from error
        return self._lent(process, budget)

    def _lent(self, process: PoolProcess, budget: Budget) -> PoolProcess:
        process.free_by_s = self._clock.monotonic() + budget.step_s() + FORGOTTEN_S
        return process

    def _queue_up(self) -> Future[PoolProcess]:
        with self._changing:
            if self.closed is not None:
                raise PoolBroken(str(self.closed))
            if len(self._waiting) >= self._bounds.queue:
                raise PoolBusy("too many steps wait", waiting=len(self._waiting))
            waiter: Future[PoolProcess] = Future()
            self._waiting.append(waiter)
        self.grow()
        return waiter

    def _withdraw(self, waiter: Future[PoolProcess]) -> None:
        """Wait no more; a process that was lent in this very moment goes to the next."""
        if not waiter.cancel() and waiter.exception() is None:
            self.offer(waiter.result())
        with self._changing:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def _told_waiter(self, error: BaseException) -> BaseException:
        if isinstance(error, WaitTimeout):
            return PoolBusy("no process became free", waited_s=self._bounds.wait_s)
        return error

    def _all_waiting(self) -> list[Future[PoolProcess]]:
        waiting = list(self._waiting)
        self._waiting.clear()
        return waiting


def refuse(waiting: Sequence[Future[PoolProcess]], why: BaseException) -> None:
    """Tell those that wait that no process comes."""
    for waiter in waiting:
        if waiter.set_running_or_notify_cancel():
            waiter.set_exception(why)
