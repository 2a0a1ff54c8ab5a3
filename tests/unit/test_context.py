"""What a job may know and use while it runs."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from smena import context
from smena.clock import MovedClock
from smena.context import Context
from smena.errors import Misconfigured
from smena.job import Job
from tests.fixtures.eventually import PATIENCE_S

JOB = Job(actor="payments.charge", queue="payments", attempt=2, request_id="r-1")


def test_a_context_tells_of_its_job() -> None:
    ctx = Context(JOB)

    assert (ctx.actor, ctx.attempt, ctx.request_id) == ("payments.charge", 2, "r-1")
    assert Context(JOB, actor="payments.renamed").actor == "payments.renamed"
    assert ctx.log is ctx.log


def test_the_seconds_to_the_deadline_run_down_and_below_zero() -> None:
    clock = MovedClock(datetime(2026, 1, 1, tzinfo=UTC))
    ctx = Context(JOB.replace(deadline_ms=clock.now_ms() + 2_000), clock=clock)

    assert ctx.deadline_s() == 2.0
    clock.advance(3)
    assert ctx.deadline_s() == -1.0
    assert Context(JOB).deadline_s() is None


def test_it_is_current_inside_its_block_only_and_blocks_nest() -> None:
    outer, inner = Context(JOB), Context(JOB)
    with context.running(outer):
        with context.running(inner):
            assert context.current() is inner
        assert context.current() is outer
        with context.following(request_id="other"):
            assert context.current() is None
    assert context.current() is None


def test_it_is_left_when_the_block_raises() -> None:
    with pytest.raises(ZeroDivisionError), context.running(Context(JOB)):
        _ = 1 / 0
    assert context.current() is None


def test_it_does_not_leak_into_threads_that_the_actor_starts() -> None:
    seen: list[Context | None] = []
    with context.running(Context(JOB)):
        thread = threading.Thread(target=lambda: seen.append(context.current()), name="test-started-by-actor")
        thread.start()
        thread.join(PATIENCE_S)
    assert seen == [None]


async def test_tasks_side_by_side_each_have_their_own() -> None:
    async def look(ctx: Context) -> bool:
        with context.running(ctx):
            await asyncio.sleep(0)
            return context.current() is ctx

    assert all(await asyncio.gather(*[look(Context(JOB)) for _ in range(20)]))


def test_a_transaction_opens_what_the_process_lends() -> None:
    story: list[str] = []

    @contextmanager
    def lend() -> Iterator[Session]:
        story.append("begin")
        yield Session()
        story.append("commit")

    with Context(JOB, transaction=lend).transaction() as session:
        assert isinstance(session, Session)
        story.append("work")
    assert story == ["begin", "work", "commit"]


async def test_without_a_database_a_transaction_says_what_is_missing() -> None:
    with pytest.raises(Misconfigured, match="SMENA_DATABASE_URL"), Context(JOB).transaction():
        pass
    with pytest.raises(Misconfigured, match="SMENA_DATABASE_URL"):
        async with Context(JOB).atransaction():
            pass


async def test_a_plain_job_and_an_async_job_are_told_apart() -> None:
    ctx = Context(JOB)
    with (
        ctx.committing_with(AsyncSession()),
        pytest.raises(Misconfigured, match="an async job awaits"),
        ctx.transaction(),
    ):
        pass
    with ctx.committing_with(Session()), pytest.raises(Misconfigured, match="a plain job does not await"):
        async with ctx.atransaction():
            pass
    assert ctx.effect is None
