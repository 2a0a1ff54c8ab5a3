"""What a leader may believe, and when its service gives up: no store is asked here."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from smena.clock import SYSTEM, MovedClock
from smena.errors import Misconfigured, TermLost
from smena.guarantees.election.contract import Reason
from smena.guarantees.election.tenure import Tenure, cancelled_at_end
from smena.guarantees.election.timing import Timing
from tests.fixtures.eventually import PATIENCE_S

START = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_tenure_is_over_when_its_time_has_run_out_though_nobody_says_so() -> None:
    clock = MovedClock(START)
    tenure = Tenure("leader:x", 1, 9.0, clock)
    clock.advance(8.9)
    tenure.check()
    clock.advance(0.1)
    assert not tenure.holds()
    with pytest.raises(TermLost):
        tenure.check()


def test_a_renewal_counts_from_when_it_was_asked_for() -> None:
    clock = MovedClock(START)
    tenure = Tenure("leader:x", 1, 9.0, clock)
    asked_s = clock.monotonic()
    clock.advance(5.0)  # the answer took that long
    tenure.renew(asked_s, 9.0)
    assert tenure.left_s() == 4.0


def test_who_wants_to_know_of_the_end_is_told_once_also_when_it_comes_late() -> None:
    told: list[str] = []
    tenure = Tenure("leader:x", 1, 9.0, MovedClock(START))
    tenure.at_end(lambda: told.append("early"))
    tenure.end(Reason.TAKEN)
    tenure.end(Reason.RESIGNED)
    tenure.at_end(lambda: told.append("late"))
    assert told == ["early", "late"]
    assert tenure.reason is Reason.TAKEN


def test_who_has_left_is_not_told() -> None:
    told: list[str] = []
    tenure = Tenure("leader:x", 1, 9.0, MovedClock(START))
    tenure.at_end(lambda: told.append("x"))()
    tenure.end(Reason.TAKEN)
    assert told == []


async def test_a_coroutine_is_struck_when_its_tenure_ends_and_is_told_why() -> None:
    tenure = Tenure("leader:x", 1, SYSTEM.monotonic() + PATIENCE_S, SYSTEM)

    async def work() -> None:
        async with cancelled_at_end(tenure):
            await asyncio.to_thread(tenure.end, Reason.TAKEN)
            await asyncio.sleep(60)

    with pytest.raises(TermLost):
        await work()
    await asyncio.sleep(0)  # nothing of it comes after


async def test_p37_a_coroutine_is_struck_when_its_time_is_over_though_nobody_can_tell_it() -> None:
    tenure = Tenure("leader:x", 1, SYSTEM.monotonic() + 0.1, SYSTEM)
    tenure.renew(SYSTEM.monotonic(), 0.2)

    async def work() -> None:
        async with cancelled_at_end(tenure):
            await asyncio.sleep(0)
            tenure.check()
            await asyncio.sleep(5)  # the leadership's thread waits for a store that says nothing

    with pytest.raises(TermLost):
        await work()
    assert not tenure.lost.is_set()


@pytest.mark.parametrize("way_out", [LookupError, None])
async def test_a_block_that_makes_something_else_of_its_end_is_not_cancelled_again(
    way_out: type[Exception] | None,
) -> None:
    for _ in range(2):
        tenure = Tenure("leader:x", 1, SYSTEM.monotonic() + PATIENCE_S, SYSTEM)
        with suppress(LookupError):
            async with cancelled_at_end(tenure):
                tenure.end(Reason.TAKEN)
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    if way_out is not None:
                        raise way_out from None
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0


async def test_a_timeout_around_the_block_stays_a_timeout() -> None:
    tenure = Tenure("leader:x", 1, SYSTEM.monotonic() + PATIENCE_S, SYSTEM)

    async def work() -> None:
        with suppress(TermLost):
            async with cancelled_at_end(tenure):
                tenure.end(Reason.TAKEN)
                await asyncio.sleep(60)
        await asyncio.sleep(60)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await work()


async def test_a_cancellation_by_somebody_else_stays_one() -> None:
    tenure = Tenure("leader:x", 1, SYSTEM.monotonic() + PATIENCE_S, SYSTEM)

    async def work() -> None:
        async with cancelled_at_end(tenure):
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_block_that_was_left_is_struck_no_more() -> None:
    tenure = Tenure("leader:x", 1, SYSTEM.monotonic() + PATIENCE_S, SYSTEM)
    async with cancelled_at_end(tenure):
        pass
    tenure.end(Reason.TAKEN)
    await asyncio.sleep(0)


def test_a_leader_stops_before_its_lease_ends_and_renews_in_time_for_another_try() -> None:
    timing = Timing(lease_s=30, retry_s=2)
    assert timing.belief_s < timing.lease_s
    assert 2 * timing.renew_every_s + timing.retry_s < timing.belief_s


@pytest.mark.parametrize("retry_s", [0.0, 11.0])
def test_times_that_leave_no_try_are_refused(retry_s: float) -> None:
    with pytest.raises(Misconfigured):
        Timing(lease_s=30, retry_s=retry_s)
