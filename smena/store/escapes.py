r"""Write down what PostgreSQL cannot hold, in a form that it can (P25).

Text there has no NUL and no lone surrogate, JSON has no NaN. On the failure path such a value is part of the
evidence: it is escaped visibly (``\x00``, ``\ud800``) and cut, never a reason to lose the row.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

_ELLIPSIS: Final = "…"


def storable(text: str, limit: int | None = None) -> str:
    r"""Return the text with NUL and lone surrogates as backslash escapes, at most ``limit`` characters long.

    >>> storable("a\x00b")
    'a\\x00b'
    """
    if limit is not None and len(text) > limit:
        text = text[: limit - 1] + _ELLIPSIS
    if "\x00" in text:
        text = text.replace("\x00", r"\x00")
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text


def is_storable(text: str) -> bool:
    """Say whether PostgreSQL can hold the text as it is."""
    return storable(text) == text


def json_value(value: Any, deepest: int = 64) -> Any:
    """Return what a `json` column takes, whatever ``value`` is.

    NaN and the infinities become their names, what JSON does not know becomes its text, and what is nested
    deeper than ``deepest`` is cut.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if deepest == 0:
        return _ELLIPSIS
    if isinstance(value, dict):
        return {str(name): json_value(inner, deepest - 1) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(inner, deepest - 1) for inner in value]
    return str(value)


def json_text(value: Any) -> str:
    """Return `json_value` as text. NUL and lone surrogates are escapes there, which `json` keeps as they are."""
    return json.dumps(json_value(value), separators=(",", ":"))
