"""Hold items against the annotation that they are to meet, many at once, and say which one does not fit."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal

from smena.book import Actor
from smena.book.arguments import Args, Arguments, Kwargs
from smena.errors import Misused, SmenaError

Per = Literal["item", "slice"]


class ItemCheck:
    """Called with some items and the first one's number, return them as they travel."""

    def __init__(self, actor: Actor[..., Any], per: Per) -> None:
        self._whole = _check_of_many(actor, per)

    def __call__(self, items: list[Any], number: int) -> list[Any]:
        try:
            sent: list[Any] = self._whole((items,), {})[0][0]
        except SmenaError as error:
            if len(items) == 1:
                raise type(error)(error.detail, **error.facts, item=number) from error
            for place, item in enumerate(items):
                self([item], number + place)
            raise
        return sent


def refuse_kwargs(actor: Actor[..., Any], kwargs: dict[str, Any]) -> None:
    """Raise unless the actor takes ``kwargs`` beside an item; whatever the items are, and also where there is none."""
    first = _first_parameter(actor)
    _, *others = actor.arguments.signature.parameters.values()
    any_item = inspect.Signature([first.replace(annotation=Any), *others])
    Arguments(actor.name, any_item).travelling((None,), kwargs)


def _check_of_many(actor: Actor[..., Any], per: Per) -> Callable[[Args, Kwargs], tuple[Args, Kwargs]]:
    """Return the check of a list of items: an actor of slices takes one, for one of items it is made of its own."""
    first = _first_parameter(actor)
    annotation = Any if first.annotation is first.empty else first.annotation
    if per == "item":
        annotation = list[annotation]  # type: ignore[valid-type]  # what the author wrote
    many = inspect.Parameter("items", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=annotation)
    return Arguments(actor.name, inspect.Signature([many])).travelling


def _first_parameter(actor: Actor[..., Any]) -> inspect.Parameter:
    """Return the parameter that an item is given to."""
    first = next(iter(actor.arguments.signature.parameters.values()), None)
    if first is None or first.kind in (first.KEYWORD_ONLY, first.VAR_KEYWORD):
        raise Misused("the actor of a batch takes an item as its first argument", actor=actor.name)
    return first
