"""Read from an actor's signature what the worker gives it beside its arguments.

Injected parameters stand first and are positional-only: ``def charge(ctx: Context, session: Session, /,
order: Order)``. So no argument's name can ever collide with one, and type checkers can strip them from
`send`. A `Session` is for plain actors, an `AsyncSession` for async ones.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias, get_type_hints

from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from smena.context import Context
from smena.errors import Misdeclared

Injected: TypeAlias = Literal["context", "session", "asession"]

_INJECTED: Final[dict[type, Injected]] = {Context: "context", Session: "session", AsyncSession: "asession"}
_ORDERS: Final[tuple[tuple[Injected, ...], ...]] = (
    (),
    ("context",),
    ("session",),
    ("asession",),
    ("context", "session"),
    ("context", "asession"),
)


def read_signature(fn: Callable[..., Any], place: str) -> inspect.Signature:
    """Return the signature of ``fn`` with its annotations resolved; raise `Misdeclared` when one cannot be."""
    try:
        hints = get_type_hints(inspect.unwrap(fn), include_extras=True)
    except (NameError, TypeError, SyntaxError, AttributeError) as error:
        raise Misdeclared(f"an actor's annotation cannot be resolved ({error})", place=place) from error
    signature = inspect.signature(fn)
    parameters = [each.replace(annotation=hints.get(each.name, each.empty)) for each in signature.parameters.values()]
    return signature.replace(parameters=parameters)


def split_injected(
    signature: inspect.Signature, *, is_async: bool, place: str
) -> tuple[tuple[Injected, ...], inspect.Signature]:
    """Return what is injected, in order, and the signature that is left for the sender's arguments."""
    parameters = list(signature.parameters.values())
    kinds = [_kind_of(each, place) for each in parameters]
    injects = tuple(kind for kind in kinds if kind is not None)
    if injects not in _ORDERS or tuple(kinds[: len(injects)]) != injects:
        raise Misdeclared("injected parameters stand first: Context, then Session or AsyncSession", place=place)
    for parameter in parameters[: len(injects)]:
        if parameter.kind is not parameter.POSITIONAL_ONLY:
            raise Misdeclared(
                f"the injected parameter {parameter.name!r} is not positional-only: write `/` after it", place=place
            )
    _check_session_fits(injects, is_async=is_async, place=place)
    return injects, signature.replace(parameters=parameters[len(injects) :])


def _kind_of(parameter: inspect.Parameter, place: str) -> Injected | None:
    annotation = parameter.annotation
    if not isinstance(annotation, type):
        return None
    for kind, name in _INJECTED.items():
        if annotation is kind:
            return name
        if issubclass(annotation, kind):
            raise Misdeclared(
                f"{parameter.name!r} asks for a subclass of {kind.__name__}; ask for {kind.__name__} itself",
                place=place,
            )
    return None


def _check_session_fits(injects: tuple[Injected, ...], *, is_async: bool, place: str) -> None:
    if is_async and "session" in injects:
        raise Misdeclared("a Session would block the event loop: an async actor asks for AsyncSession", place=place)
    if not is_async and "asession" in injects:
        raise Misdeclared("a plain actor asks for Session; AsyncSession is for async actors", place=place)
