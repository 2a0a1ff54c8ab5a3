"""Resources of a process: opened once, in order, and closed in reverse whatever happens."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from smena.book import Book, Registry, Resources
from smena.context import Context
from smena.errors import Misconfigured
from smena.job import Job

JOB = Job(actor="mail.confirm", queue="mail")


class Worker:
    """What the worker gives: an event loop, and an ear for what fails."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.failures: list[tuple[str, str]] = []
        self.in_loop = loop.run_until_complete

    def on_error(self, name: str, error: BaseException) -> None:
        self.failures.append((name.rpartition(".")[2], str(error)))

    def open(self, resources: Resources) -> None:
        resources.open_all(self.in_loop, self.on_error)

    def close(self, resources: Resources) -> None:
        resources.close_all(self.in_loop, self.on_error)


@pytest.fixture
def worker() -> Iterator[Worker]:
    with asyncio.Runner() as runner:
        yield Worker(runner.get_loop())


def test_all_kinds_open_in_order_are_fetched_by_function_and_close_in_reverse(worker: Worker) -> None:
    book, story = Book("mail"), []

    @book.resource
    def plain() -> Iterator[int]:
        story.append("open plain")
        yield 1
        story.append("close plain")

    @book.resource
    async def awaited() -> AsyncIterator[str]:
        story.append("open awaited")
        yield "two"
        story.append("close awaited")

    @book.resource
    @contextmanager
    def managed() -> Iterator[float]:
        yield 3.0
        story.append("close managed")

    @book.resource
    @asynccontextmanager
    async def managed_awaited() -> AsyncIterator[bytes]:
        yield b"4"
        story.append("close managed awaited")

    resources = Registry([book]).resources
    worker.open(resources)
    ctx = Context(JOB, resources=resources)
    got = (ctx.resource(plain), ctx.resource(awaited), ctx.resource(managed), ctx.resource(managed_awaited))
    worker.close(resources)
    worker.close(resources)

    assert got == (1, "two", 3.0, b"4")
    assert story == [
        "open plain",
        "open awaited",
        "close managed awaited",
        "close managed",
        "close awaited",
        "close plain",
    ]
    assert (len(resources), worker.failures) == (0, [])


def test_one_that_fails_to_close_does_not_keep_the_others_open(worker: Worker) -> None:
    closed = []

    def first() -> Iterator[int]:
        yield 1
        closed.append("first")

    def second() -> Iterator[int]:
        yield 2
        raise RuntimeError("will not close")

    resources = Resources([first, second])
    worker.open(resources)
    worker.close(resources)

    assert closed == ["first"]
    assert worker.failures == [("second", "will not close")]


def test_one_that_fails_to_open_closes_those_before_it_and_rises(worker: Worker) -> None:
    closed = []

    def first() -> Iterator[int]:
        yield 1
        closed.append("first")

    def second() -> Iterator[int]:
        if not closed:
            raise OSError("no such host")
        yield 2

    resources = Resources([first, second])
    with pytest.raises(OSError, match="no such host"):
        worker.open(resources)

    assert closed == ["first"]


def test_a_unit_test_hands_a_job_what_it_likes() -> None:
    def client() -> Iterator[str]:
        yield "real"

    assert Context(JOB, resources={client: "fake"}).resource(client) == "fake"


def test_fetching_what_no_book_declares_is_told() -> None:
    def client() -> Iterator[str]:
        yield "real"

    with pytest.raises(Misconfigured, match="client"):
        Context(JOB).resource(client)


def test_what_cannot_be_a_resource_is_refused_at_its_declaration() -> None:
    def asks(url: str) -> Iterator[str]:
        yield url

    async def returns() -> str:
        return "x"

    declare: Any = Book("mail").resource
    with pytest.raises(Misconfigured, match="takes no arguments"):
        declare(asks)
    with pytest.raises(Misconfigured, match="yields its value"):
        declare(returns)
    with pytest.raises(Misconfigured, match="is a function"):
        declare("client")


def test_a_function_that_neither_yields_nor_manages_is_told_when_it_is_opened(worker: Worker) -> None:
    with pytest.raises(Misconfigured, match="yields, or returns a context manager"):
        worker.open(Resources([lambda: 5]))
