"""Read a shop's sales from CSV or NDJSON, gzipped or not, one line at a time.

`inspect` looks at the whole file before anything is sent: it raises `UnreadableFile` for a file that is
missing, of an unknown kind, cut off in its compression, or with other columns. `read` then yields a
`RetailLine` or a `Rejected` for every record, in bounded memory whatever the file holds.

A record is a physical line. In CSV a quoted field may go on over further lines; if the quotes do not
close properly within `_JOIN_LINES`, only the first of those lines is rejected and reading goes on with
the next: one forgotten quote costs one line, not the rest of the file. Blank lines are not records.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from examples.shop.retail_line import COLUMNS, Malformed, Rejected, RetailLine, line_of
from smena.errors import Refused

_LINE_BYTES = 64 * 1024
_JOIN_LINES = 50
_CHUNK_BYTES = 1024 * 1024
_BOM = b"\xef\xbb\xbf"

Entry = RetailLine | Rejected
_Raw = str | Malformed
"""A physical line's text, or why it has none."""


class UnreadableFile(Refused):
    """The file cannot be read as a shop's sales; the detail says why and what is expected."""


def inspect(path: Path) -> None:
    """Check kind, compression to its end, and columns, before anything is sent."""
    reader = _reader_for(path)
    try:
        with _opened(path) as stream:
            if reader is _csv_entries:
                _header(_physical_lines(stream))
            while stream.read(_CHUNK_BYTES):
                pass
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableFile(f"{path}: {_reason(error)}") from error
    except UnreadableFile as error:
        raise UnreadableFile(f"{path}: {error.detail}") from None


def read(path: Path) -> Iterator[Entry]:
    """Yield every record of an inspected file, in order, as a line or as rejected with its number."""
    reader = _reader_for(path)
    with _opened(path) as stream:
        yield from reader(_physical_lines(stream))


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, EOFError):
        return "the gzip data is cut off before its end"
    return str(error) or type(error).__name__


def _reader_for(path: Path) -> Callable[[_Lines], Iterator[Entry]]:
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(".csv"):
        return _csv_entries
    if name.endswith((".ndjson", ".jsonl")):
        return _ndjson_entries
    raise UnreadableFile(f"{path}: expected .csv, .ndjson or .jsonl, each also with .gz")


def _opened(path: Path) -> BinaryIO:
    if path.name.lower().endswith(".gz"):
        return cast("BinaryIO", io.BufferedReader(gzip.open(path, "rb"), _CHUNK_BYTES))
    return path.open("rb")


class _Lines:
    """Physical lines that can be put back."""

    def __init__(self, lines: Iterator[_Raw]) -> None:
        self._lines = lines
        self._back: deque[_Raw] = deque()

    def __iter__(self) -> Iterator[_Raw]:
        return self

    def __next__(self) -> _Raw:
        return self._back.popleft() if self._back else next(self._lines)

    def put_back(self, lines: Sequence[_Raw]) -> None:
        self._back.extendleft(reversed(lines))


def _physical_lines(stream: BinaryIO) -> _Lines:
    return _Lines(_decoded(stream))


def _decoded(stream: BinaryIO) -> Iterator[_Raw]:
    first = True
    while line := stream.readline(_LINE_BYTES):
        if first:
            line, first = line.removeprefix(_BOM), False
        if len(line) == _LINE_BYTES and not line.endswith(b"\n"):
            _skip_to_line_end(stream)
            yield Malformed(f"the line is longer than {_LINE_BYTES} bytes")
            continue
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            yield Malformed("the line is not UTF-8")
            continue
        if not text.isspace():
            yield text


def _skip_to_line_end(stream: BinaryIO) -> None:
    while (rest := stream.readline(_LINE_BYTES)) and not rest.endswith(b"\n"):
        pass


def _header(lines: _Lines) -> list[int]:
    """Return where each of `COLUMNS` stands in the file."""
    line = next(lines, None)
    if line is None:
        raise UnreadableFile("the file is empty")
    if isinstance(line, Malformed):
        raise UnreadableFile(f"the header cannot be read: {line.detail}")
    names = [name.strip() for name in (_fields([line]) or [])]
    unknown, missing = sorted(set(names) - set(COLUMNS)), sorted(set(COLUMNS) - set(names))
    if unknown or missing or len(names) != len(COLUMNS):
        facts = [f"unknown {unknown}" if unknown else "", f"missing {missing}" if missing else ""]
        raise UnreadableFile(f"unexpected columns ({'; '.join(filter(None, facts)) or 'repeated'}); need {COLUMNS}")
    return [names.index(column) for column in COLUMNS]


def _csv_entries(lines: _Lines) -> Iterator[Entry]:
    order = _header(lines)
    in_order = order == list(range(len(COLUMNS)))
    for number, raw in enumerate(lines, 1):
        try:
            fields = _record(raw, lines)
            yield line_of(number, fields if in_order else [fields[place] for place in order])
        except Malformed as reason:
            yield Rejected(number, reason.detail)


def _record(raw: _Raw, lines: _Lines) -> list[str]:
    if isinstance(raw, Malformed):
        raise raw
    fields = _fields([raw])
    if fields is None and raw.count('"') % 2:
        fields = _joined(raw, lines)
    if fields is None:
        raise Malformed("the quotes do not close")
    if len(fields) != len(COLUMNS):
        raise Malformed(f"has {len(fields)} columns, not {len(COLUMNS)}")
    return fields


def _joined(first: str, lines: _Lines) -> list[str] | None:
    """Try whether a quoted field goes on over the next lines; if not, put them back."""
    taken: list[_Raw] = []
    texts, size = [first], len(first)
    while len(texts) < _JOIN_LINES and size < _LINE_BYTES and (line := next(lines, None)) is not None:
        taken.append(line)
        if isinstance(line, Malformed):
            break
        texts.append(line)
        size += len(line)
        if line.count('"') % 2:
            fields = _fields(texts)
            if fields is not None and len(fields) == len(COLUMNS):
                return fields
            break
    lines.put_back(taken)
    return None


def _fields(texts: list[str]) -> list[str] | None:
    """Split one record; None if its quotes do not fit."""
    try:
        return next(csv.reader(texts, strict=True))
    except (csv.Error, StopIteration):
        return None


def _ndjson_entries(lines: _Lines) -> Iterator[Entry]:
    for number, raw in enumerate(lines, 1):
        try:
            if isinstance(raw, Malformed):
                raise raw
            yield line_of(number, _fields_of_object(raw))
        except Malformed as reason:
            yield Rejected(number, reason.detail)


def _fields_of_object(text: str) -> list[str]:
    try:
        value = json.loads(text, parse_float=str, parse_int=str, parse_constant=str)  # digits stay as written
    except (ValueError, RecursionError):
        raise Malformed("the line is not JSON") from None
    if not isinstance(value, dict) or not value.keys() <= set(COLUMNS):
        raise Malformed("the line is not an object with the known columns")
    return [_plain(column, value.get(column)) for column in COLUMNS]


def _plain(column: str, value: Any) -> str:
    """Return the text a CSV field would hold."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Malformed(f"{column} is neither text nor a number")
    return value
