"""Keep secrets and arguments out of the logs.

A job is told by its id and its actor; its arguments are somebody's data and never a log's. What comes
under a name that usually holds such things is replaced; passwords inside addresses are masked wherever
they stand.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from smena.telemetry.plain_text import VALUE_LIMIT, cut, text_of

REDACTED = "[redacted]"
ARGUMENT_NAMES = frozenset({"args", "kwargs", "arguments", "body", "payload", "params", "parameters"})
_SECRET_NAME = re.compile(r"password|passwd|secret|token|authorization|api_?key|cookie|credential", re.IGNORECASE)
_QUOTED_DATA = re.compile(
    r"""(?sx)
    (?<=DETAIL:) .*? (?=\n[A-Z]+: | \n\[SQL | \n\( | \n\n | \Z)  # PostgreSQL: Key (card)=(4111) already exists
    | (?<=\[parameters:) .*? (?=\]\n | \] \( | \]?\Z)           # SQLAlchemy: what was bound
    | (?<=input_value=) .*? (?=,\ input_type= | \n | \Z)        # pydantic: what did not fit
    """
)
_DATA_MARKS = ("DETAIL:", "[parameters:", "input_value=")
_ADDRESS_PASSWORD = re.compile(r"(\w{2,30}://[^\s/:@]{0,200}:)[^\s@/]+@")
_MOST_PARTS = 50
_DEEPEST = 4
_LONGEST_PASSWORD = 512
_INT64 = 2**63

Plain = str | int | float | bool | list[Any] | dict[str, Any] | None


def is_private(name: str) -> bool:
    """Say whether a field of this name is never shown."""
    return name in ARGUMENT_NAMES or _SECRET_NAME.search(name) is not None


def public(name: str, value: object, limit: int = VALUE_LIMIT) -> Plain:
    """Return the value as a log may show it: plain data, cut, escaped, without secrets."""
    if is_private(name):
        return REDACTED
    try:
        return _View(limit).of(value, _DEEPEST)
    except Exception:  # noqa: BLE001  (a foreign object may refuse anything it is asked)
        return f"<{type(value).__name__}>"


def discreet(text: str) -> str:
    """Return an error's text, or any other, without what it quotes: passwords of addresses, and the data of
    messages that are known to show it (PostgreSQL's, SQLAlchemy's, pydantic's).
    """
    if any(mark in text for mark in _DATA_MARKS):
        text = _QUOTED_DATA.sub(f" {REDACTED}", text)
    return _ADDRESS_PASSWORD.sub(r"\1***@", text) if "://" in text else text


class _View:
    """Walks one value, and stops after so many parts however it is nested."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts_left = _MOST_PARTS

    def of(self, value: object, depth: int) -> Plain:
        """Return the value as plain data."""
        self._parts_left -= 1
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return _number(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return f"<{len(value)} bytes>"
        if isinstance(value, Mapping | list | tuple | set | frozenset):
            return self._collection(value, depth - 1) if depth else f"<{type(value).__name__}>"
        # masked before it is cut: a cut inside an address would leave a password that no longer looks like one
        return cut(discreet(text_of(value, self._limit + _LONGEST_PASSWORD)), self._limit)

    def _collection(self, value: Mapping[Any, Any] | Iterable[Any], depth: int) -> Plain:
        if isinstance(value, Mapping):
            parts = itertools.takewhile(self._has_room, value.items())
            return {
                text_of(key, 100): REDACTED if is_private(str(key)) else self.of(item, depth) for key, item in parts
            }
        return [self.of(item, depth) for item in itertools.takewhile(self._has_room, value)]

    def _has_room(self, _part: object) -> bool:
        return self._parts_left > 0


def _number(value: int | float) -> int | float | str:
    """Return a number that JSON can hold, or its text: NaN, infinity and very long integers are none."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    return int(value) if -_INT64 <= value < _INT64 else f"<integer of {value.bit_length()} bits>"
