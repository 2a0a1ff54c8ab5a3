"""Make the bytes of one log line out of what is to be said.

The last steps of structlog's chain. They never raise and never give more than `LINE_LIMIT` bytes: of a
line that is too long the bulkiest fields are cut, of a traceback the beginning, since its end says most.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, MutableMapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import structlog

from smena.telemetry.line_writer import LINE_LIMIT
from smena.telemetry.plain_text import cut, cut_front, text_of, visible, visible_lines
from smena.telemetry.redaction import discreet, public

Fields = MutableMapping[str, Any]

MOST_FIELDS: Final = 64
NAME_LIMIT: Final = 100
TRACEBACK: Final = "exception"
_ALWAYS: Final = ("time", "level", "event", "process", "pid")
_LAST_RESORT: Final = 256
_encode = msgspec.json.Encoder().encode


def sanitize(_logger: object, _method: str, fields: Fields) -> Fields:
    """Replace what may not be shown, cut and escape the rest (a processor)."""
    others = (name for name in fields if name not in _ALWAYS)
    kept = itertools.chain((name for name in _ALWAYS if name in fields), itertools.islice(others, MOST_FIELDS))
    return {
        text_of(name, NAME_LIMIT): _traceback(fields[name]) if name == TRACEBACK else public(name, fields[name])
        for name in kept
    }


def stamp(_logger: object, _method: str, fields: Fields) -> Fields:
    """Put time, level and event first (a processor)."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    first = {"time": now, "level": fields.pop("level", "info"), "event": fields.pop("event", "")}
    return {**first, **fields}


def to_json(fields: Fields) -> bytes:
    """Return the fields as one line of JSON."""
    line = _encode(fields)
    return (line if len(line) < LINE_LIMIT else _fitted(fields, len(line) + 1 - LINE_LIMIT)) + b"\n"


def console(*, colors: bool) -> Callable[[Fields], bytes]:
    """Return the renderer for a terminal: one event a line, a traceback below it, no control characters."""
    renderer = structlog.dev.ConsoleRenderer(
        colors=colors, exception_formatter=structlog.dev.plain_traceback, timestamp_key="time"
    )

    def render(fields: Fields) -> bytes:
        shown = {visible(name): _shown(name, value) for name, value in fields.items()}
        line = str(renderer(None, "", shown)).encode(errors="backslashreplace")
        return (line if len(line) < LINE_LIMIT else line[: LINE_LIMIT - 1]) + b"\n"

    return render


def _traceback(value: object) -> str:
    return discreet(cut_front(text_of(value, limit=2**20), LINE_LIMIT))


def _fitted(fields: Fields, excess: int) -> bytes:
    """Cut the bulkiest fields, each once, until the line fits; in the last resort say only what and when."""
    sizes = {name: len(_encode(value)) for name, value in fields.items() if name not in _ALWAYS}
    fitted = dict(fields)
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        if excess <= 0:
            break
        fitted[name] = _shorter(name, fields[name], sizes[name], excess)
        excess -= sizes[name] - len(_encode(fitted[name]))
    line = _encode(fitted)
    if len(line) < LINE_LIMIT:
        return line
    return _encode({name: cut(text_of(fields.get(name, "")), _LAST_RESORT) for name in _ALWAYS})


def _shorter(name: str, value: object, size: int, excess: int) -> str:
    """Return about that much less of a text (escapes may make it several bytes a character); of others a mark."""
    if not isinstance(value, str):
        return "…"
    keep = max(0, len(value) * (size - excess) // size - len("…" * 4))
    return cut_front(value, keep) if name == TRACEBACK else cut(value, keep)


def _shown(name: str, value: object) -> object:
    """Escape what could forge a line; of a traceback, all but the ends of its lines."""
    if not isinstance(value, str):
        return value
    return visible_lines(value) if name == TRACEBACK else visible(value)
