"""Actors that batches are opened for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from smena.book import Book, Retry
from smena.context import Context
from smena.errors import Permanent, Transient

book = Book("works")


@dataclass(frozen=True)
class Line:
    """An item with parts."""

    number: int
    code: str


class Bad(Permanent):
    """An item that is no good."""

    code = "bad"


class Doing:
    """What the actors do beside their effect; a test sets it."""

    def __init__(self) -> None:
        self.hook: Callable[[int], object] = lambda _: None
        self.seen: list[int] = []
        self.changing = threading.Lock()

    def __call__(self, number: int) -> None:
        with self.changing:
            self.seen.append(number)
        self.hook(number)


doing = Doing()

EFFECT = sa.text("INSERT INTO effects (item, job_id, attempt) VALUES (:item, :job, :attempt)")


def _write(ctx: Context, session: Session, number: int) -> None:
    session.execute(EFFECT, {"item": number, "job": ctx.job.id, "attempt": ctx.attempt})


@book.actor(queue="works", retry=Retry(attempts=3, unexpected_attempts=2))
def plain(number: int) -> None:
    """Do it, with no transaction."""
    doing(number)


@book.actor(queue="works")
def row(values: dict[str, Any], /) -> None:
    """Do what a row of a query says."""
    doing(values["n"])


@book.actor(queue="works", retry=Retry(attempts=3, unexpected_attempts=2))
def commits(ctx: Context, session: Session, /, number: int, *, offset: int = 0) -> None:
    """Write one effect in a transaction of its own."""
    _write(ctx, session, number + offset)
    doing(number)


@book.actor(queue="works", retry=Retry(attempts=1000))
def patient(ctx: Context, session: Session, /, number: int) -> None:
    """Write one effect, however often it takes."""
    _write(ctx, session, number)
    doing(number)


@book.actor(queue="works", once=lambda number: str(number % 100))
def once(ctx: Context, session: Session, /, number: int) -> None:
    """Write one effect for each key."""
    _write(ctx, session, number)


@book.actor(queue="works", retry=Retry(attempts=3, unexpected_attempts=2))
def slices(ctx: Context, session: Session, /, numbers: list[int]) -> None:
    """Write the effects of a slice."""
    for number in numbers:
        _write(ctx, session, number)
    for number in numbers:
        doing(number)


def outage(number: int) -> None:
    """Fail as a service does that is away for a moment."""
    raise Transient("away", item=number)


@book.actor(queue="works")
def each(ctx: Context, /, number: int) -> None:
    """Take one item."""


@book.actor(queue="works")
def line(item: Line) -> None:
    """Take one item with parts."""


@book.actor(queue="works")
def many(ctx: Context, /, numbers: list[int]) -> None:
    """Take a slice."""


@book.actor(queue="ends")
def ended(batch: int, total: int, done: int, dead: int) -> None:
    """Hear of the end."""


@book.actor(queue="works-in-order", partition_by=lambda number: number)
def in_order(number: int) -> None:
    """Take one of a key at a time."""


@book.actor(queue="works-in-order", partition_by=lambda batch: batch)
def ended_in_order(batch: int, total: int, done: int, dead: int) -> None:
    """Hear of the end, in an order that nobody gives."""


@book.actor(queue="works")
async def awaits(number: int) -> None:
    """Take one item on the event loop."""


@book.actor(queue="works")
def anything(item: object) -> None:
    """Take whatever travels."""


@book.actor(queue="works")
def priced(item: object, rate: float) -> None:
    """Take an item with what is the same for all."""


@book.actor(queue="works")
def by_name(*, item: object) -> None:
    """Take an item by its name alone, as no batch gives it."""
