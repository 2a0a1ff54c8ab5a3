"""Load the books that the settings name, and find actors in them.

Every role of the fleet loads the same books, so a name means the same everywhere: it is unique over all
of them, aliases included, or the process refuses to boot and shows both places.
"""

from __future__ import annotations

import importlib
import sysconfig
import traceback
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, Final

from smena.book.actor import Actor
from smena.book.book import Book
from smena.book.resources import Resources
from smena.errors import DuplicateName, Misconfigured, Misdeclared

_IMPORT: Final = "importlib"
"""What the file names of Python's own import have in them."""

_NOT_THE_USERS: Final = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))


class Registry:
    """All actors and resources of the loaded books."""

    def __init__(self, books: Sequence[Book]) -> None:
        self.books = tuple(books)
        self._by_name: dict[str, Actor[..., Any]] = {}
        for actor in self.actors():
            for name in (actor.name, *actor.aliases):
                self._add(name, actor)
        self.partitions = _partitions(self.actors())
        """How many partitions each ordered queue has."""
        self.resources = Resources(list(dict.fromkeys(provider for book in self.books for provider in book.providers)))

    def actor(self, name: str) -> Actor[..., Any] | None:
        """Return the actor of this name or alias, or None."""
        return self._by_name.get(name)

    def actors(self) -> tuple[Actor[..., Any], ...]:
        """Return all actors, in the order of their books and declarations."""
        return tuple(actor for book in self.books for actor in book.actors)

    def queues(self) -> tuple[str, ...]:
        """Return the names of all queues that actors are declared on, sorted."""
        return tuple(sorted({actor.queue for actor in self.actors()}))

    def _add(self, name: str, actor: Actor[..., Any]) -> None:
        earlier = self._by_name.setdefault(name, actor)
        if earlier is not actor:
            raise DuplicateName(name=name, first=earlier.place, second=actor.place)


def _partitions(actors: Sequence[Actor[..., Any]]) -> Mapping[str, int]:
    """Return the ordered queues; raise `Misdeclared` for one that not all of its actors cut the same way."""
    firsts: dict[str, Actor[..., Any]] = {}
    for actor in actors:
        first = firsts.setdefault(actor.queue, actor)
        if _count(first) != _count(actor):
            told = "all actors of a queue have `partition_by` and the same `partitions`, or none has"
            raise Misdeclared(told, queue=actor.queue, first=first.place, second=actor.place)
    return {queue: count for queue, actor in firsts.items() if (count := _count(actor))}


def _count(actor: Actor[..., Any]) -> int:
    return 0 if actor.partitions is None else actor.partitions.count


def load_books(modules: Iterable[str]) -> Registry:
    """Import the modules by path and return what their books declare.

    Raises `Misconfigured` for a module that cannot be imported (with its own error as the cause) or that
    holds no book, and `DuplicateName` for a name that two actors carry.
    """
    books: list[Book] = []
    for path in modules:
        books += [book for book in _books_of(_import(path), path) if book not in books]
    return Registry(books)


def _import(path: str) -> ModuleType:
    try:
        return importlib.import_module(path)
    except Misconfigured:
        raise
    except Exception as error:  # the seam: a user's module may raise anything while it is imported
        told = f"the book {path!r} cannot be imported: {type(error).__name__}: {error}"
        raise Misconfigured(f"{told}{_place_of(error)}") from error


def _place_of(error: Exception) -> str:
    """Return the last line of the user's code on the way to an import's error, in brackets; empty where there is none.

    A library's line says less; who misses the module itself has none.
    """
    if isinstance(error, SyntaxError):
        return ""  # its text says it
    lines = [line for line in traceback.extract_tb(error.__traceback__)[1:] if _IMPORT not in line.filename]
    own = [line for line in lines if not line.filename.startswith(_NOT_THE_USERS)] or lines
    return f" ({own[-1].filename}:{own[-1].lineno})" if own else ""


def _books_of(module: ModuleType, path: str) -> list[Book]:
    found = [value for value in vars(module).values() if isinstance(value, Book)]
    if not found:
        raise Misconfigured("the setting `books` names a module without a Book", module=path)
    return found
