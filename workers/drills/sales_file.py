"""Read the shop's input once more, for the ledger: with the standard library, by its own reading of the rules.

This is the second opinion on what the file says, so it shares nothing with the publisher's reader. The
rules are those of `docs/reference/shop-file.md`: eight columns, exact decimals, a record is a physical
line, quotes may join lines only when they close properly, blank lines are no records.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Iterator
from datetime import datetime
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

_NAMES = ["InvoiceNo", "StockCode", "Description", "Quantity", "InvoiceDate", "UnitPrice", "CustomerID", "Country"]
_LONGEST_LINE = 65_536
_MOST_JOINED = 50

_LINE = re.compile(
    r"(?P<quantity>[+-]?\d{1,15})(\.0+)?\x1f(?P<price>[+-]?\d{1,15}(\.\d{1,15})?)\x1f((?P<customer>\d{1,15})(\.0+)?)?",
    re.ASCII,
)
_ISO = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?", re.ASCII)
_FORBIDDEN = re.compile("[\x00\ud800-\udfff]")


class SoldLine(NamedTuple):
    """What the file says about one line; numbers are text as written, so that nothing is rounded."""

    number: int
    invoice: str
    stock_code: str
    quantity: str
    unit_price: str
    customer: str | None


def sold_lines(path: Path) -> Iterator[SoldLine | int]:
    """Yield each record as a `SoldLine`, or its bare number where it cannot be one."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rb") as stream:
        texts = _texts(cast("BinaryIO", stream))
        if ".csv" in [suffix.lower() for suffix in path.suffixes[-2:]]:
            places = _places(next(texts, None))
            records = _csv_records(texts, places)
        else:
            records = map(_json_record, texts)
        for number, record in enumerate(records, 1):
            yield (_sold(number, record) if record else None) or number


def _texts(stream: BinaryIO) -> Iterator[str | None]:
    """Yield lines that are not blank; None for one that is too long or not UTF-8."""
    encoding = "utf-8-sig"
    while line := stream.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE and line[-1:] != b"\n":
            while line and line[-1:] != b"\n":
                line = stream.readline(_LONGEST_LINE)
            yield None
            continue
        try:
            text = line.decode(encoding)
        except UnicodeDecodeError:
            yield None
        else:
            if text.strip():
                yield text
        encoding = "utf-8"


def _places(header: str | None) -> list[int]:
    names = [name.strip() for name in next(csv.reader([header or ""]), [])]
    if sorted(names) != sorted(_NAMES):
        raise SystemExit(f"the ledger cannot judge a file with the columns {names}")
    return [names.index(name) for name in _NAMES]


def _csv_records(texts: Iterator[str | None], places: list[int]) -> Iterator[list[str] | None]:
    ahead: list[str | None] = []
    while True:
        ahead = ahead or list(islice(texts, 1))
        if not ahead:
            return
        if ahead[0] is not None and _split([ahead[0]]) is None and ahead[0].count('"') % 2:
            ahead.extend(islice(texts, _MOST_JOINED - len(ahead)))
        row, used = _first_record(ahead)
        ahead = ahead[used:]
        yield [row[place] for place in places] if row and len(row) == len(_NAMES) else None


def _first_record(ahead: list[str | None]) -> tuple[list[str] | None, int]:
    """Return the first record and how many lines it takes; a line that opens quotes in vain stands alone."""
    first = ahead[0]
    row = None if first is None else _split([first])
    if first is None or row is not None or first.count('"') % 2 == 0:
        return row, 1
    size = len(first)
    for end, text in enumerate(ahead[1:_MOST_JOINED], 2):
        if text is None or size >= _LONGEST_LINE:
            break
        size += len(text)
        if text.count('"') % 2:
            row = _split([line for line in ahead[:end] if line is not None])
            return (row, end) if row and len(row) == len(_NAMES) else (None, 1)
    return None, 1


def _split(lines: list[str]) -> list[str] | None:
    try:
        return next(csv.reader(lines, strict=True), None)
    except csv.Error:
        return None


def _json_record(text: str | None) -> list[str] | None:
    try:
        record = json.loads(text or "", parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or set(record) - set(_NAMES):
        return None
    fields = ["" if record.get(name) is None else record[name] for name in _NAMES]
    return fields if all(isinstance(field, str) for field in fields) else None


def _sold(number: int, record: list[str]) -> SoldLine | None:
    invoice, stock_code, description, quantity, date, price, customer, country = record
    numbers = _LINE.fullmatch("\x1f".join((quantity, price, customer)))
    sizes = chain(((invoice, 1, 64), (stock_code, 1, 64)), ((description, 0, 1000), (country, 0, 1000)))
    if numbers is None or not all(low <= len(text) <= high for text, low, high in sizes):
        return None
    if not invoice.strip() or not stock_code.strip() or _FORBIDDEN.search("".join(record)) or not _is_date(date):
        return None
    if not -(2**31) <= int(numbers["quantity"]) < 2**31:
        return None
    return SoldLine(number, invoice, stock_code, numbers["quantity"], numbers["price"], numbers["customer"])


def _is_date(text: str) -> bool:
    try:
        if _ISO.fullmatch(text):
            datetime.fromisoformat(text)
        else:
            datetime.strptime(text, "%m/%d/%Y %H:%M")  # noqa: DTZ007 - only whether it is one
    except ValueError:
        return False
    return True
