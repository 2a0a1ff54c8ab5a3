"""Make sure that a value can travel.

What is sent must be JSON that RabbitMQ, PostgreSQL and any other language can hold: no NaN or infinity,
no NUL, no lone surrogate, no text that is not UTF-8, no nesting without end. It is refused here, at the
sender's door, with the path of the offending value, rather than on its way.
"""

from __future__ import annotations

import math
from typing import Any, Final

from pydantic_core import PydanticSerializationError, to_jsonable_python

from smena.errors import Unsendable

MAX_DEPTH: Final = 64
"""Lists and dicts inside each other; more than any real argument, far below any decoder's bound."""

_MAX_INT_BITS: Final = 1024
_MOST_INT: Final = 1 << _MAX_INT_BITS
_CONTAINERS: Final = frozenset({list, tuple, dict})


def plain(value: object, path: str) -> Any:
    """Return ``value`` as JSON values only; models, dataclasses, dates and the like are turned into them.

    Raises `Unsendable` with the path for what has no JSON form.
    """
    try:
        jsonable = to_jsonable_python(value)
    except (PydanticSerializationError, RecursionError, ValueError) as error:
        raise no_json_form(value, path, error) from None
    check(jsonable, path)
    return jsonable


def no_json_form(value: object, path: str, error: Exception) -> Unsendable:
    """Return the error for a value that could not be turned into JSON, with the path of the part at fault.

    Of ``error`` it takes the class alone: its text may hold values, which belong in no log.
    """
    if isinstance(error, PydanticSerializationError | UnicodeError):
        for part_path, part in _parts(value, path):
            try:
                to_jsonable_python(part)
            except (PydanticSerializationError, RecursionError, ValueError) as deeper:
                return no_json_form(part, part_path, deeper)
    reason = "" if isinstance(error, PydanticSerializationError) else f": {type(error).__name__}"
    return Unsendable(f"{path} has no JSON form{reason}", type=type(value).__name__)


def _parts(value: object, path: str) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [(f"{path}.{key}", item) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    return []


def check(value: Any, path: str, depth: int = 0) -> None:
    """Raise `Unsendable` with the path of the first JSON value in ``value`` that cannot travel."""
    kind = type(value)
    if kind is str:
        _check_text(value, path)
    elif kind is int:
        if value.bit_length() > _MAX_INT_BITS:
            raise Unsendable(f"{path} is an integer of more than {_MAX_INT_BITS} bits")
    elif kind is float:
        if not math.isfinite(value):
            raise Unsendable(f"{path} is not a finite number")
    elif kind in _CONTAINERS:
        _check_inside(value, path, depth + 1)
    elif value is not None and kind is not bool:
        raise Unsendable(f"{path} is not a JSON value", type=kind.__name__)


def _check_inside(value: Any, path: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise Unsendable(f"{path} is nested more than {MAX_DEPTH} deep")
    if type(value) is list and set(map(type, value)) == {int} and -_MOST_INT < min(value) <= max(value) < _MOST_INT:
        return  # all at once: a batch holds many
    if type(value) is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise Unsendable(f"{path} has a key that is not a string", type=type(key).__name__)
            _check_text(key, f"a key of {path}")
            check(item, f"{path}.{key}", depth)
    else:
        for index, item in enumerate(value):
            check(item, f"{path}[{index}]", depth)


def _check_text(text: str, path: str) -> None:
    if "\0" in text:
        raise Unsendable(f"{path} holds a NUL character")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Unsendable(f"{path} holds a lone surrogate") from None
