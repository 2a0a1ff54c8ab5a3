"""Who gets a pool process, and that none is lost between two who want it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from smena.clock import SYSTEM
from smena.settings.groups import Pool as Bounds
from workers.execution.pool_desk import Budget, Desk

BOUNDS = Bounds()


class Lent:
    """What the desk needs of a process."""

    free_by_s = 0.0


def desk() -> Desk:
    return Desk(BOUNDS, 1, lambda: None, lambda _process: None, SYSTEM)


def budget() -> Budget:
    return Budget(BOUNDS, 5, None, SYSTEM)


async def test_p30_a_process_that_comes_for_a_step_that_is_cancelled_in_that_moment_is_free_again() -> None:
    lending = desk()
    process: Any = Lent()
    waits = asyncio.create_task(lending.alend(budget()))
    while not lending.standing()["waiting"]:
        await asyncio.sleep(0)
    lending.take(process)
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    assert lending.standing() == {"busy": 0, "idle": 1, "waiting": 0}
    assert await lending.alend(budget()) is process


async def test_a_process_that_comes_back_goes_to_who_waits_first() -> None:
    lending = desk()
    process: Any = Lent()
    lending.take(process)
    assert lending.lend(budget()) is process
    first, second = (asyncio.create_task(lending.alend(budget())) for _ in range(2))
    while lending.standing()["waiting"] < 2:
        await asyncio.sleep(0)
    lending.offer(process)
    assert await first is process
    assert not second.done()
    lending.offer(process)
    assert await second is process
