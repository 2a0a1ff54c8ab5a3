"""Actors that batches are opened for."""

from dataclasses import dataclass

from smena.book import Book
from smena.context import Context

book = Book("works")


@dataclass(frozen=True)
class Line:
    """An item with parts."""

    number: int
    code: str


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


@book.actor(queue="works")
async def awaits(number: int) -> None:
    """Take one item on the event loop."""
