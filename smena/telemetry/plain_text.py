"""Make any text safe to store and to show.

For failure paths, which must not fail themselves: what PostgreSQL and UTF-8 cannot hold (NUL, lone
surrogates) is escaped, what is long is cut, and an object that cannot even be printed is named by its
class. Nothing here raises.
"""

from __future__ import annotations

import re
from types import TracebackType
from typing import Any

VALUE_LIMIT = 2048
"""Bytes of UTF-8 that one value may take in a log line or a header."""

_TYPE_NAME = vars(type)["__name__"].__get__
_TRACEBACK = vars(BaseException)["__traceback__"].__get__
_CUT_MARK = "…"
_UNPRINTABLE = re.compile(r"[\x00\ud800-\udfff]")
_BIDI = r"\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_CONTROL = re.compile(rf"[\x00-\x1f\x7f-\x9f{_BIDI}]")
_CONTROL_IN_LINES = re.compile(rf"[\x00-\x09\x0b-\x1f\x7f-\x9f{_BIDI}]")


def cut(text: str, limit: int = VALUE_LIMIT) -> str:
    """Return the text with at most ``limit`` bytes of UTF-8, escaped where it cannot be stored."""
    shortened = text[:limit]
    safe = _UNPRINTABLE.sub(_escape, shortened)
    encoded = safe.encode()
    if len(encoded) <= limit and len(shortened) == len(text):
        return safe
    room = max(0, limit - len(_CUT_MARK.encode()))
    return encoded[:room].decode(errors="ignore") + _CUT_MARK


def cut_front(text: str, limit: int = VALUE_LIMIT) -> str:
    """Return the end of the text instead, for what says most there, as a traceback does."""
    if len(text) <= limit and len(safe := cut(text, limit)) >= len(text):
        return safe
    room = max(0, limit - len(_CUT_MARK.encode()))
    encoded = _UNPRINTABLE.sub(_escape, text[-room:] if room else "").encode()
    return _CUT_MARK + encoded[max(0, len(encoded) - room) :].decode(errors="ignore")


def text_of(value: Any, limit: int = VALUE_LIMIT) -> str:
    """Return `str(value)`, cut and escaped, or the name of its class when it cannot be printed."""
    try:
        return cut(str(value), limit)
    except BaseException:  # noqa: BLE001  (a foreign __str__ may do anything, `sys.exit()` too)
        return f"<{type_name(value)}>"


def error_text(error: BaseException, limit: int = VALUE_LIMIT) -> str:
    """Return `Class: message`, cut and escaped."""
    return cut(f"{type_name(error)}: {text_of(error, limit)}".removesuffix(": "), limit)


def type_name(value: object) -> str:
    """Return the name of a value's class, whatever that class's own class says."""
    name: str = _TYPE_NAME(type(value))
    return name


def true_traceback(error: BaseException) -> TracebackType | None:
    """Return the traceback of an error, whatever its class has put in that place."""
    frames: TracebackType | None = _TRACEBACK(error)
    return frames


def visible(text: str) -> str:
    """Return the text with escapes for what could move a terminal's cursor, turn its text round or forge a line."""
    return _CONTROL.sub(_shown, text)


def visible_lines(text: str) -> str:
    """Return `visible` of each line; the lines stay."""
    return _CONTROL_IN_LINES.sub(_shown, text)


def _shown(found: re.Match[str]) -> str:
    number = ord(found.group())
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"
