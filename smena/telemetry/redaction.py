"""Keep secrets and arguments out of the logs.

A job is told by its id and its actor; its arguments are somebody's data and never a log's. What comes
under a name that usually holds such things is replaced; passwords inside addresses are masked wherever
they stand.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping
from typing import Any

from smena.telemetry.plain_text import VALUE_LIMIT, cut, text_of

REDACTED = "[redacted]"
ARGUMENT_NAMES = frozenset({"args", "kwargs", "arguments", "body", "payload", "params", "parameters"})
_SECRET_NAME = re.compile(r"password|passwd|secret|token|authorization|api_?key|cookie|credential", re.IGNORECASE)
_ADDRESS_PASSWORD = re.compile(r"(\w+://[^\s/:@]*:)[^\s@/]+@")
_LONGEST_LIST = 50
_DEEPEST = 4
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
        return _plain(value, limit, _DEEPEST)
    except Exception:  # noqa: BLE001  (a foreign object may refuse anything it is asked)
        return f"<{type(value).__name__}>"


def without_passwords(text: str) -> str:
    """Mask the password of every address in the text."""
    return _ADDRESS_PASSWORD.sub(r"\1***@", text) if "://" in text else text


def _plain(value: object, limit: int, depth: int) -> Plain:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, str):
        return cut(without_passwords(value[: limit + 1]), limit)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    return _collection(value, limit, depth) if depth else f"<{type(value).__name__}>"


def _number(value: int | float) -> int | float | str:
    """Return a number that JSON can hold, or its text: NaN, infinity and very long integers are none."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    return int(value) if -_INT64 <= value < _INT64 else f"<integer of {value.bit_length()} bits>"


def _collection(value: object, limit: int, depth: int) -> Plain:
    if isinstance(value, Mapping):
        pairs = itertools.islice(value.items(), _LONGEST_LIST)
        return {text_of(key, 200): _member(str(key), item, limit, depth) for key, item in pairs}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, limit, depth - 1) for item in itertools.islice(value, _LONGEST_LIST)]
    return without_passwords(text_of(value, limit))


def _member(name: str, value: object, limit: int, depth: int) -> Plain:
    return REDACTED if is_private(name) else _plain(value, limit, depth - 1)
