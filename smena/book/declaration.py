"""Type what `book.actor` returns: strip the injected parameters for senders, keep them for callers.

Type checkers pick the first overload that fits, so the longer ones come first. Where a parameter could take
anything (`Any`, `object`, ``*args: Any``, or no annotation) it could take a `Context` or a `Session` too, and
nobody can tell from its type that it is not injected. `Anything` finds such functions first: their senders may
send what they like as far as a checker goes. The worker reads the annotations themselves and is never in doubt.
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


class Anything:
    """A type of its own, which only a parameter for anything takes."""


class Declaration(Protocol):
    """Turn a function into an actor."""

    @overload
    def __call__(self, fn: Callable[Concatenate[Anything, ...], R], /) -> Actor[..., R, ...]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Context, Anything, ...], R], /) -> Actor[..., R, ...]: ...
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
