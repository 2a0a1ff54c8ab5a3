"""Who waits for the end of a pool process hears of it, whatever goes wrong on the way."""

from collections.abc import Iterator
from concurrent.futures import Future
from typing import cast
from unittest import mock

import pytest

from smena.clock import SYSTEM, Deadline
from tests.fixtures.eventually import PATIENCE_S
from workers.execution.pool_keeper import Keeper, Owner
from workers.execution.pool_process import Ending, PoolProcess, Server


@pytest.fixture
def server() -> mock.Mock:
    return mock.Mock(Server)


@pytest.fixture
def process(server: mock.Mock) -> mock.Mock:
    process = mock.Mock(PoolProcess, pid=12)
    server.fork.return_value = process
    return process


@pytest.fixture
def owner() -> mock.Mock:
    owner = mock.Mock(Owner)
    owner.busy.return_value = []
    return owner


@pytest.fixture
def keeper(server: mock.Mock, owner: mock.Mock) -> Iterator[Keeper]:
    keeper = Keeper(lambda: cast("Server", server), owner, max_memory_mib=64, recycle_memory_mib=64)
    keeper.start()
    yield keeper
    assert keeper.stop(Deadline.within(PATIENCE_S, SYSTEM), [], [])


@pytest.mark.parametrize("place", ["kill", "reap", "close"])
def test_p30_an_end_that_goes_wrong_is_told_to_who_waits_for_it(
    keeper: Keeper, server: mock.Mock, process: mock.Mock, owner: mock.Mock, place: str
) -> None:
    came: Future[PoolProcess] = Future()
    owner.started.side_effect = came.set_result
    keeper.grow()
    (server.reap if place == "reap" else getattr(process, place)).side_effect = ValueError("not foreseen")
    server.reap.return_value = Ending("SIGKILL")

    ending = keeper.end(came.result(PATIENCE_S)).result(PATIENCE_S)

    assert ending == (Ending("SIGKILL") if place == "close" else Ending())
    process.close.assert_called_once()
