"""Compute a key from an actor's arguments: that of `once`, or that of `partition_by`.

The author writes ``once=lambda order: order.number``: a function of those of the actor's own parameters
that make up the key, told apart by name. It is called with the checked arguments. None means: this job
has no key.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from smena.errors import Misdeclared

KeyFunction: TypeAlias = Callable[..., str | int | None]

_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_BY_NAME_ONLY: Final = -1


class KeyRule:
    """Give the key for an actor's checked arguments; ``word`` is what the author wrote the function behind."""

    __slots__ = ("_function", "_positions", "_takes_everything", "_word")

    def __init__(self, word: str, function: KeyFunction, signature: inspect.Signature, place: str) -> None:
        wanted = _parameters(word, function, place)
        self._word = word
        self._function = function
        self._takes_everything = any(each.kind in _VARIADIC for each in wanted)
        known = _positions(signature)
        unknown = [each.name for each in wanted if each.name not in known and each.default is each.empty]
        if unknown and not self._takes_everything:
            told = f"`{word}` asks for {', '.join(map(repr, unknown))}, which the actor does not take"
            raise Misdeclared(told, place=place, actor_takes=", ".join(known) or "nothing")
        self._positions = {each.name: known[each.name] for each in wanted if each.name in known}

    def __call__(self, *args: Any, **kwargs: Any) -> str | None:
        """Return the key; raise `TypeError` when the author's function gives no str, int or None."""
        if self._takes_everything:
            return self._as_key(self._function(*args, **kwargs))
        parts = {
            name: args[position] if _BY_NAME_ONLY < position < len(args) else kwargs[name]
            for name, position in self._positions.items()
        }
        return self._as_key(self._function(**parts))

    def _as_key(self, value: object) -> str | None:
        if value is None or type(value) is str:
            return value
        if isinstance(value, str | int) and not isinstance(value, bool):
            try:
                return str(value)
            except ValueError:  # Python's own bound on digits
                raise TypeError(f"`{self._word}` returned a number of too many digits") from None
        raise TypeError(f"`{self._word}` returned {type(value).__name__}; a key is a str, an int or None")


def _positions(signature: inspect.Signature) -> dict[str, int]:
    """Return where each parameter stands, `_BY_NAME_ONLY` for those after ``*``."""
    return {
        each.name: _BY_NAME_ONLY if each.kind is each.KEYWORD_ONLY else position
        for position, each in enumerate(signature.parameters.values())
        if each.kind not in _VARIADIC
    }


def _parameters(word: str, function: object, place: str) -> list[inspect.Parameter]:
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise Misdeclared(f"`{word}` is a plain function of the actor's arguments", place=place)
    try:
        wanted = list(inspect.signature(function).parameters.values())
    except ValueError as error:
        raise Misdeclared(f"the signature of `{word}` cannot be read: wrap it in a lambda", place=place) from error
    if any(each.kind is each.POSITIONAL_ONLY for each in wanted):
        raise Misdeclared(f"`{word}` takes its values by name: wrap it in a lambda", place=place)
    return wanted
