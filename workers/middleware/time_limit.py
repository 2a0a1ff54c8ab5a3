"""Give an attempt its time: the actor's limit, and the job's deadline if that is sooner.

A job whose deadline has passed does not run: it ends as `Overdue`, or its actor's expiry handler is called in its
place, in a transaction of its own and under the same `once` key. What begins in time is interrupted when its time is up
(`in_time`) and then ends as `TimeLimitExceeded` or `Overdue`, whatever it raised on its way out. If it returned
instead, that counts, except inside a transaction: what was interrupted at an unknown line is not committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from smena.clock import Clock
from smena.errors import Overdue, SmenaError, TimeLimitExceeded, TimeUp
from smena.step import Step
from workers.middleware.attempt import LIMIT, Attempt
from workers.middleware.outcome import Done, Outcome
from workers.middleware.rings import AsyncCall, Call
from workers.middleware.stopwatch import NEVER

DEADLINE: Final = "deadline"
"""Whose time an attempt has, as its stopwatch's ``bound``; a `Step` where a step has struck."""


class TimeLimit:
    """Say until when the attempt may run, and let none begin that is too late."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def around(self, call: Call) -> Call:
        """Return ``call`` with its time set, for a thread."""
        monotonic = self._clock.monotonic

        def timed(attempt: Attempt) -> Outcome:
            if attempt.job.deadline_ms is None:  # the common case, on the path of every job
                soft_s = attempt.actor.soft_s
                if soft_s is not None:
                    attempt.due_s = attempt.context.due_s = monotonic() + soft_s
                return call(attempt)
            try:
                self._set(attempt)
                return call(attempt)
            except Overdue:
                if not attempt.expire():
                    raise
            self._set(attempt)
            return call(attempt)

        return timed

    def around_async(self, call: AsyncCall) -> AsyncCall:
        """Return ``call`` with its time set, for the event loop."""
        monotonic = self._clock.monotonic

        async def timed(attempt: Attempt) -> Outcome:
            if attempt.job.deadline_ms is None:
                soft_s = attempt.actor.soft_s
                if soft_s is not None:
                    attempt.due_s = attempt.context.due_s = monotonic() + soft_s
                return await call(attempt)
            try:
                self._set(attempt)
                return await call(attempt)
            except Overdue:
                if not attempt.expire():
                    raise
            self._set(attempt)
            return await call(attempt)

        return timed

    def _set(self, attempt: Attempt) -> None:
        now_s, soft_s = self._clock.monotonic(), attempt.actor.soft_s
        due_s, bound = None if soft_s is None else now_s + soft_s, LIMIT
        if attempt.job.deadline_ms is not None and attempt.target is attempt.actor:
            left_s = (attempt.job.deadline_ms - self._clock.now_ms()) / 1000
            if left_s <= 0:
                raise Overdue(actor=attempt.actor.name)
            if due_s is None or now_s + left_s < due_s:
                due_s, bound = now_s + left_s, DEADLINE
        attempt.due_s, attempt.bound = due_s, bound
        attempt.context.due_s = due_s


def in_time(attempt: Attempt, due_s: float, call: Callable[[Attempt], Done]) -> Done:
    """Run the actor's own code in this thread until ``due_s`` at most."""
    watch = attempt.watch
    try:
        try:
            watch.arm(due_s, attempt.bound)
            outcome = call(attempt)
        finally:
            try:
                watch.disarm()
            except TimeUp:
                watch.disarm()
    except BaseException as error:
        if watch.struck is None:
            raise
        raise time_is_up(watch.struck, attempt) from error
    if watch.struck is not None and attempt.session is not None:
        raise time_is_up(watch.struck, attempt)
    return outcome


async def in_time_async(attempt: Attempt, due_s: float, call: Callable[[Attempt], Awaitable[Done]]) -> Done:
    """Run the actor's own code on the event loop until ``due_s`` at most; nothing can come between its awaits."""
    watch = attempt.watch
    watch.task = asyncio.current_task()
    watch.arm(due_s, attempt.bound)
    try:
        outcome = await call(attempt)
    except BaseException as error:
        if watch.struck is None:
            raise
        raise time_is_up(watch.struck, attempt) from error
    finally:
        watch.due_s = NEVER
        if watch.struck is not None and watch.task is not None:
            watch.task.uncancel()  # it was meant for the job: what the task does from here on is not cancelled
        watch.task = None
    if watch.struck is not None and attempt.session is not None:
        raise time_is_up(watch.struck, attempt)
    return outcome


def time_is_up(struck: object, attempt: Attempt) -> SmenaError:
    """Return what an attempt comes to that was interrupted for this reason."""
    if isinstance(struck, Step):
        return struck.timed_out()
    if struck is DEADLINE:
        return Overdue(actor=attempt.actor.name)
    return TimeLimitExceeded(actor=attempt.actor.name, limit_s=attempt.actor.soft_s)
