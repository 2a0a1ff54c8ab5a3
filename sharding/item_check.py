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

    def __init__(self, actor: Actor[..., Any], per: Per, kwargs: dict[str, Any]) -> None:
        self._actor = actor
        self._per = per
        self._kwargs = kwargs
        self._whole = self._of_many()
        self._is_first = True

    def __call__(self, items: list[Any], number: int) -> list[Any]:
        try:
            if self._is_first:  # the first one with all that the actor is given
                one = items[:1] if self._per == "slice" else items[0]
                self._actor.arguments.travelling((one,), self._kwargs)
                self._is_first = False
            sent: list[Any] = self._whole((items,), {})[0][0]
        except SmenaError as error:
            if len(items) == 1:
                raise type(error)(error.detail, **error.facts, item=number) from error
            for place, item in enumerate(items):
                self([item], number + place)
            raise
        return sent

    def _of_many(self) -> Callable[[Args, Kwargs], tuple[Args, Kwargs]]:
        """Return the check of a list of items: an actor of slices takes one, for one of items it is made of its own."""
        first = next(iter(self._actor.arguments.signature.parameters.values()), None)
        if first is None:
            raise Misused("the actor of a batch takes an item as its first argument", actor=self._actor.name)
        annotation = Any if first.annotation is first.empty else first.annotation
        if self._per == "item":
            annotation = list[annotation]  # type: ignore[valid-type]  # what the author wrote
        many = inspect.Parameter("items", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=annotation)
        return Arguments(self._actor.name, inspect.Signature([many])).travelling
