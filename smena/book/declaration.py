"""Type what `book.actor` returns: strip the injected parameters for senders, keep them for callers.

Type checkers pick the first overload that fits, so the longer ones come first. A first parameter that is
annotated `Any` or `object`, or not at all, fits every overload: checkers then know less, the worker does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar, overload

from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from smena.book.actor import Actor
from smena.context import Context

P = ParamSpec("P")
R = TypeVar("R")


class Declaration(Protocol):
    """Turn a function into an actor."""

    @overload
    def __call__(
        self, fn: Callable[Concatenate[Context, Session, P], R], /
    ) -> Actor[P, R, Concatenate[Context, Session, P]]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[Context, AsyncSession, P], R], /
    ) -> Actor[P, R, Concatenate[Context, AsyncSession, P]]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], R], /) -> Actor[P, R, Concatenate[Context, P]]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Session, P], R], /) -> Actor[P, R, Concatenate[Session, P]]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[AsyncSession, P], R], /
    ) -> Actor[P, R, Concatenate[AsyncSession, P]]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Actor[P, R, P]: ...
