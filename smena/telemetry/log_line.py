"""Make the bytes of one log line out of what is to be said.

The last step of structlog's chain. It never raises and never gives more than `LINE_LIMIT` bytes: when
a line is too long its longest texts are cut, of a traceback the beginning, since its end says most.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from smena.telemetry.line_writer import LINE_LIMIT
from smena.telemetry.plain_text import cut, text_of
from smena.telemetry.redaction import public

Fields = MutableMapping[str, Any]
TRACEBACK_LIMIT = 16 * 1024
_FIRST = ("time", "level", "event")
_encode = msgspec.json.Encoder().encode


def sanitize(_logger: object, _method: str, fields: Fields) -> Fields:
    """Replace what may not be shown, cut and escape the rest (a processor)."""
    return {text_of(name, 100): public(name, value, _limit(name)) for name, value in fields.items()}


def _limit(name: str) -> int:
    return TRACEBACK_LIMIT if name == "exception" else 2048


def stamp(_logger: object, _method: str, fields: Fields) -> Fields:
    """Put time, level and event first (a processor)."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    first = {"time": now, "level": fields.pop("level", "info"), "event": fields.pop("event", "")}
    return {**first, **fields}


def to_json(fields: Fields) -> bytes:
    """Return the fields as one line of JSON."""
    line = _encode(dict(fields))
    while len(line) >= LINE_LIMIT and _shorten(fields, len(line) - LINE_LIMIT + 1):
        line = _encode(dict(fields))
    return (line if len(line) < LINE_LIMIT else _encode({name: fields.get(name) for name in _FIRST})) + b"\n"


def _shorten(fields: Fields, excess: int) -> bool:
    """Cut the longest text by about the excess; say whether there was one worth cutting."""
    name, text = max(
        ((name, value) for name, value in fields.items() if isinstance(value, str)), key=lambda pair: len(pair[1])
    )
    if len(text) <= 64:
        return _drop_longest(fields)
    keep = max(64, len(text) - excess - 8)
    fields[name] = "…" + text[-keep:] if name == "exception" else cut(text, keep)
    return True


def _drop_longest(fields: Fields) -> bool:
    """Drop the bulkiest field that is no text."""
    sizes = {name: len(_encode(value)) for name, value in fields.items() if name not in _FIRST}
    if not sizes:
        return False
    del fields[max(sizes, key=lambda name: sizes[name])]
    return True


def console(colors: bool) -> Callable[[Fields], bytes]:
    """Return the renderer for a terminal: one event a line, a traceback below it, no locals."""
    renderer = structlog.dev.ConsoleRenderer(
        colors=colors, exception_formatter=structlog.dev.plain_traceback, timestamp_key="time"
    )

    def render(fields: Fields) -> bytes:
        text = renderer(None, "", dict(fields))
        return cut_line(text.encode(errors="backslashreplace"))

    return render


def cut_line(line: bytes) -> bytes:
    """Return the line no longer than a pipe takes as one piece."""
    return (
        line if len(line) < LINE_LIMIT else line[: LINE_LIMIT - 4].decode(errors="ignore").encode() + "…".encode()
    ) + b"\n"
