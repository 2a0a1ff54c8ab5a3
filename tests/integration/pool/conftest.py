"""A pool with real processes, its figures set by the test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from smena.clock import SYSTEM, Deadline
from smena.settings.groups import Pool as Bounds
from workers.execution.pool import Pool
from workers.execution.pool_process import Server
from workers.process.orders import Orders
from workers.wiring.pool import launch

MakePool = Callable[..., Pool]


class Told(list[bool]):
    """What a pool told its worker about itself."""


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def make_pool(told: Told) -> Iterator[MakePool]:
    pools: list[Pool] = []

    def make(start: Callable[[], Server] | None = None, *, cgroup: str = "", **bounds: Any) -> Pool:
        overrides = {f"pool.{name}": value for name, value in bounds.items()}
        orders = Orders(
            role="worker",
            module="",
            post=0,
            supervisor_pid=os.getpid(),
            state_dir="",
            overrides=overrides,
            cgroup=cgroup,
        )
        pool = Pool(Bounds(**bounds), start or (lambda: launch(orders)), told.append)
        pools.append(pool)
        return pool

    yield make
    for pool in pools:
        pool.stop(Deadline.within(10, SYSTEM))
