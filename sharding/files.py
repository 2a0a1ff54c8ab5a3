"""Read the items of a file; what cannot be read is refused with the number of its line."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from smena.errors import Unsendable

_UNREADABLE: Final = (msgspec.MsgspecError, RecursionError)


def of_file(path: Path) -> Iterator[Any]:
    """Give the items of a file: `.jsonl` a JSON value a line, `.csv` a dict a row, else its lines; empty ones are none.

    A mark of the byte order is no text. Bytes that are no UTF-8 come as lone surrogates, and no item may hold those.
    Raises `Unsendable` for what is no item, and for a file that cannot be read to its end.
    """
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        if path.suffix == ".csv":
            yield from _rows(_lines(file))
            return
        for number, line in enumerate(_lines(file), 1):
            if text := line.rstrip("\r\n"):
                yield _value(text, number) if path.suffix == ".jsonl" else text


def _lines(file: Iterable[str]) -> Iterator[str]:
    try:
        yield from file
    except OSError as error:
        raise Unsendable(f"the file cannot be read to its end: {error.strerror or error}") from error


def _value(text: str, number: int) -> Any:
    try:
        return msgspec.json.decode(text)
    except UnicodeError as error:
        raise Unsendable("a line is no UTF-8", line=number) from error
    except _UNREADABLE as error:
        raise Unsendable(f"a line is no JSON ({error})", line=number) from error


def _rows(file: Iterable[str]) -> Iterator[dict[str, str]]:
    head: list[str] | None = None
    for number, row in _cells(file):
        if head is None:
            head = row
            if len(set(head)) < len(head):
                raise Unsendable("two columns have one name", line=number)
        elif len(row) != len(head):
            told = "a row has another number of fields than the header"
            raise Unsendable(told, fields=len(row), header=len(head), line=number)
        else:
            yield dict(zip(head, row, strict=True))


def _cells(file: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(file, strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise Unsendable(f"a row cannot be read ({error})", line=reader.line_num) from error
