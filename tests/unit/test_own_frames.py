"""People see a failed job's traceback from the actor's own code on."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from smena.book import Book, Registry
from smena.job import Job
from smena.settings.groups import Retry, Worker
from tests.fixtures.noted_delivery import NotedDelivery
from workers.cli.own_frames import from_the_actor_on
from workers.execution.binding import bind_actors
from workers.middleware import evidence
from workers.middleware.actor import call_actor, call_actor_async
from workers.middleware.attempt import Attempt

book = Book("frames")


def deep() -> None:
    raise ValueError("no")


@book.actor()
def fails() -> None:
    deep()


@book.actor()
async def afails() -> None:
    deep()


@book.actor()
def fails_for_another() -> None:
    try:
        deep()
    except ValueError as error:
        raise KeyError("why") from error


@book.actor()
async def fails_in_a_group() -> None:
    try:
        deep()
    except ValueError as error:
        raise ExceptionGroup("both", [error, KeyError("other")]) from None


@book.actor()
def wants_more(word: str) -> None: ...


def trace_of(name: str) -> str:
    bound = bind_actors(Registry([book]), Retry(), [], None, Worker())[f"frames.{name}"]
    attempt = Attempt(NotedDelivery(), Job(actor=bound.name, queue="q"), bound)
    call: Callable[[Attempt], Any] = call_actor
    if bound.is_async:
        call = lambda attempt: asyncio.run(call_actor_async(attempt))  # noqa: E731
    with pytest.raises(Exception) as failed:
        call(attempt)
    return evidence.of_error(failed.value, "bad").traceback


@pytest.mark.parametrize("name", ["fails", "afails", "fails_for_another", "fails_in_a_group"])
def test_the_frames_above_the_actor_are_left_out(name: str) -> None:
    whole = trace_of(name)
    shown = from_the_actor_on(whole)
    assert "in _called" in whole
    assert "in _called" not in shown
    first = next(line for line in shown.splitlines() if " File " in line)
    assert first.endswith(f"in {name}") or name == "fails_for_another"
    assert shown.count("in deep") == whole.count("in deep") == 1
    assert shown.endswith(whole.splitlines(keepends=True)[-1])


def test_a_failure_outside_the_actor_is_shown_whole() -> None:
    whole = trace_of("wants_more")
    assert "in _called" in whole
    assert from_the_actor_on(whole) == whole
