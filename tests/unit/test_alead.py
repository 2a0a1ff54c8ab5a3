"""Who waits to lead in a coroutine, and gives that up, leaves nothing behind that waits."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest

from smena.clock import SYSTEM
from smena.guarantees.election.contract import Election
from smena.guarantees.election.leadership import Leadership
from smena.guarantees.election.timing import Timing
from tests.fixtures.eventually import PATIENCE_S

SOON_S = PATIENCE_S / 4


@pytest.fixture
def leadership() -> Leadership:
    """Give one that was never started, so that it leads never."""
    return Leadership(mock.Mock(Election, lease_name="leader:x"), Timing(30, 2), SYSTEM)


async def test_p37_a_coroutine_that_gives_up_to_lead_leaves_no_thread_waiting(leadership: Leadership) -> None:
    async def lead() -> None:
        async with leadership.alead():
            raise AssertionError

    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(lead(), 0.05)
    try:
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "the thread is free"), SOON_S)
    finally:
        leadership.ask_to_stop()
