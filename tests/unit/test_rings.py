"""The rings round an actor call: what each does, and that nothing passes the settle ring."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from smena.book import Book
from smena.context import Context, current
from smena.errors import InvalidArguments, Shutdown
from tests.fixtures.ring_bench import Bench
from workers.middleware.once import MOST_LOSSES
from workers.middleware.outcome import SETTLING, Dead, Done, Outcome, Retry, Returned
from workers.middleware.settle import CANCELLED
from workers.middleware.verdict import SHUTDOWN_CANCEL

book = Book("rings")


@book.actor(aliases=("rings.old_name",))
def double(number: int) -> int:
    return number * 2


@book.actor()
def told(ctx: Context, /, word: str) -> str:
    assert current() is ctx
    return f"{ctx.actor} {word} {ctx.attempt}"


@book.actor()
def fails(kind: str) -> None:
    if kind == "exit":
        sys.exit(3)
    if kind == "shutdown":
        raise Shutdown
    raise ValueError(kind)


@book.actor()
def forks(how: str) -> int:
    return _status_of_child(os.fork(), how)


@book.actor()
async def aforks(how: str) -> int:
    return _status_of_child(os.fork(), how)


def _status_of_child(pid: int, how: str) -> int:
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if how == "raises":
        raise ValueError(how)
    if how == "exits":
        sys.exit(7)
    return 0


@book.actor()
async def adouble(ctx: Context, /, number: int) -> int:
    await asyncio.sleep(0)
    assert current() is ctx
    return number * 2


@book.actor()
async def afails(kind: str) -> None:
    if kind == "cancel":
        raise asyncio.CancelledError
    if kind == "own task":
        _this_task().cancel()
        await asyncio.sleep(0)
    if kind == "shutdown":
        raise asyncio.CancelledError(SHUTDOWN_CANCEL)
    raise ValueError(kind)


@book.actor()
async def waits() -> int:
    await asyncio.sleep(0)
    return _this_task().cancelling()


def _this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


@pytest.fixture
def bench() -> Bench:
    return Bench(book)


@pytest.mark.parametrize("actor", ["rings.double", "rings.old_name", "rings.adouble"])
def test_a_job_that_returns_is_done_and_acked(bench: Bench, actor: str) -> None:
    outcome, delivery = bench.run(actor, 21)
    assert outcome == Done(42)
    assert delivery.told == ["ack"]


def test_a_forked_childs_end_is_its_own_whatever_error_is_handled_around_it(bench: Bench) -> None:
    try:
        raise LookupError
    except LookupError:
        outcome, _ = bench.run("rings.forks", "returns")
    assert outcome == Done(0)


@pytest.mark.parametrize("actor", ["rings.forks", "rings.aforks"])
@pytest.mark.parametrize(("how", "status"), [("returns", 0), ("raises", 1), ("exits", 7)])
def test_a_child_that_an_actor_forked_ends_where_the_actor_ends(
    bench: Bench, actor: str, how: str, status: int, tmp_path: Path
) -> None:
    parent = os.getpid()
    try:
        outcome, delivery = bench.run(actor, how)
    finally:
        if os.getpid() != parent:
            (tmp_path / "came out").touch()
            os._exit(99)
    assert outcome == Done(status)
    assert delivery.told == ["ack"]
    assert list(tmp_path.iterdir()) == []


def test_an_actor_gets_its_own_context_and_it_is_current(bench: Bench) -> None:
    assert bench.run("rings.told", "word")[0] == Done("rings.told word 1")
    assert current() is None


@pytest.mark.parametrize(("actor", "kind"), [("rings.fails", "bug"), ("rings.fails", "exit"), ("rings.afails", "bug")])
def test_p12_a_job_that_raises_is_left_to_the_settler_and_not_acked(bench: Bench, actor: str, kind: str) -> None:
    outcome, delivery = bench.run(actor, kind)
    assert isinstance(outcome, Retry)
    assert bench.settler.taken == [outcome]
    assert delivery.told == []


def test_a_coroutine_that_cancels_itself_spends_an_attempt(bench: Bench) -> None:
    assert isinstance(bench.run("rings.afails", "cancel")[0], Retry)


def test_p30_a_coroutine_that_another_cancels_spends_no_attempt_and_is_whole_again(bench: Bench) -> None:
    attempt = bench.attempt("rings.waits")

    async def twice() -> tuple[Outcome, Outcome]:
        return await attempt.actor.async_call(attempt), await attempt.actor.async_call(attempt.again())

    async def beside() -> tuple[Outcome, Outcome]:
        victim = asyncio.create_task(twice())
        await asyncio.sleep(0)
        victim.cancel()
        return await victim

    assert asyncio.run(beside()) == (Returned(CANCELLED), Done(0))
    assert bench.settler.taken == []


def test_a_coroutine_that_has_its_own_task_cancelled_each_time_spends_an_attempt_in_the_end(bench: Bench) -> None:
    attempt, outcomes = bench.attempt("rings.afails", "own task"), []
    for _ in range(MOST_LOSSES + 1):
        outcomes.append(type(asyncio.run(attempt.actor.async_call(attempt))))
        attempt = attempt.again()
    assert outcomes == [Returned] * MOST_LOSSES + [Retry]


@pytest.mark.parametrize("actor", ["rings.fails", "rings.afails"])
def test_shutdown_returns_the_job_and_settles_nothing(bench: Bench, actor: str) -> None:
    outcome, delivery = bench.run(actor, "shutdown")
    assert isinstance(outcome, Returned)
    assert bench.settler.taken == []
    assert delivery.told == []


@pytest.mark.parametrize("args", [("x",), (), (1, 2), ({},)])
def test_p17_arguments_that_do_not_fit_are_dead_at_once(bench: Bench, args: tuple[Any, ...]) -> None:
    outcome, _ = bench.run("rings.double", *args)
    assert isinstance(outcome, Dead)
    assert outcome.reason == InvalidArguments.code


def test_every_outcome_says_how_it_is_settled() -> None:
    assert set(SETTLING) == set(Outcome.__args__)
