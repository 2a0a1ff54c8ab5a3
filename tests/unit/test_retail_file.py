"""The reader takes every line that is one, refuses every other by its number, and never the whole for one."""

from __future__ import annotations

import gzip
import json
import os
import resource
import subprocess
import sys
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest

from examples.shop.retail_file import UnreadableFile, inspect, read
from examples.shop.retail_line import COLUMNS, Rejected, RetailLine

HEADER = ",".join(COLUMNS)
GOOD = "536365,85123A,WHITE HOLDER,6,2010-12-01 08:26:00,2.55,17850.0,United Kingdom"


def entries(folder: Path, text: str | bytes, name: str = "sales.csv") -> list[RetailLine | Rejected]:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    inspect(path)
    return list(read(path))


def csv_entries(folder: Path, *lines: str) -> list[RetailLine | Rejected]:
    return entries(folder, "\n".join((HEADER, *lines)) + "\n")


def test_a_line_is_read_exactly(tmp_path: Path) -> None:
    [line] = csv_entries(tmp_path, GOOD)
    assert line == RetailLine(
        number=1,
        invoice="536365",
        stock_code="85123A",
        description="WHITE HOLDER",
        quantity=6,
        placed_at=datetime(2010, 12, 1, 8, 26),  # noqa: DTZ001 - the file's own wall time
        unit_price=Decimal("2.55"),
        customer="17850",
        country="United Kingdom",
    )


def test_a_missing_customer_and_description_are_no_fault(tmp_path: Path) -> None:
    [line] = csv_entries(tmp_path, "C536,POST,,-1,12/1/2010 8:26,0.001,,EIRE")
    assert isinstance(line, RetailLine)
    assert (line.customer, line.description, line.quantity, line.unit_price) == (None, "", -1, Decimal("0.001"))


def test_columns_may_stand_in_another_order(tmp_path: Path) -> None:
    fields = dict(zip(COLUMNS, GOOD.split(","), strict=True))
    text = ",".join(reversed(COLUMNS)) + "\n" + ",".join(fields[name] for name in reversed(COLUMNS))
    [line] = entries(tmp_path, text)
    assert isinstance(line, RetailLine)
    assert (line.invoice, line.country) == ("536365", "United Kingdom")


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("536365,1,A,six,2010-12-01 08:26:00,2.55,,UK", "Quantity"),
        ("536365,1,A,2147483648,2010-12-01 08:26:00,2.55,,UK", "Quantity"),
        ("536365,1,A,1,2010-12-01 08:26:00,NaN,,UK", "UnitPrice"),
        ("536365,1,A,1,2010-12-01 08:26:00,1e3,,UK", "UnitPrice"),
        ("536365,1,A,1,2010-12-01 08:26:00,,,UK", "UnitPrice"),
        ("536365,1,A,1,2010-02-30 08:26:00,2.55,,UK", "InvoiceDate"),
        ("536365,1,A,1,yesterday,2.55,,UK", "InvoiceDate"),
        ("536365,1,A,1,2010-12-01 08:26:00,2.55,somebody,UK", "CustomerID"),
        (",1,A,1,2010-12-01 08:26:00,2.55,,UK", "InvoiceNo"),
        ("536365, ,A,1,2010-12-01 08:26:00,2.55,,UK", "StockCode"),
        ("536365,1,A,1,2010-12-01 08:26:00,2,55,,UK", "9 columns"),
        ("536365,1,A", "3 columns"),
        ("536365,1,A\0B,1,2010-12-01 08:26:00,2.55,,UK", "NUL"),
        ("536365,1," + "A" * 1_001 + ",1,2010-12-01 08:26:00,2.55,,UK", "Description"),
        ("536365,1," + "A" * 70_000 + ",1,2010-12-01 08:26:00,2.55,,UK", "longer than"),
    ],
)
def test_a_broken_line_is_rejected_by_its_number(tmp_path: Path, broken: str, reason: str) -> None:
    first, second, third = csv_entries(tmp_path, GOOD, broken, GOOD)
    assert isinstance(second, Rejected)
    assert second.number == 2
    assert reason in second.reason
    assert [type(first), type(third), third.number] == [RetailLine, RetailLine, 3]


def test_a_line_that_is_not_utf8_is_rejected_alone(tmp_path: Path) -> None:
    bad = b"1,1,\xa3 VOUCHER,1,2010-12-01 08:26:00,2.55,,UK"
    kinds = [type(entry) for entry in entries(tmp_path, b"\n".join((HEADER.encode(), bad, GOOD.encode())))]
    assert kinds == [Rejected, RetailLine]


def test_a_forgotten_quote_costs_one_line(tmp_path: Path) -> None:
    forgotten = '536365,1,"A MUG,6,2010-12-01 08:26:00,2.55,,UK'
    quoted = '536366,2,"A MUG, RED",6,2010-12-01 08:26:00,2.55,,UK'
    kinds = [type(entry) for entry in csv_entries(tmp_path, forgotten, GOOD, quoted, *[GOOD] * 60)]
    assert kinds == [Rejected, *[RetailLine] * 62]


def test_a_quoted_field_may_go_on_over_lines(tmp_path: Path) -> None:
    first, second = csv_entries(tmp_path, '536365,1,"A MUG', 'OF ""TWO"" LINES",6,2010-12-01 08:26:00,2.55,,UK', GOOD)
    assert isinstance(first, RetailLine)
    assert first.description == 'A MUG\nOF "TWO" LINES'
    assert second.number == 2


def test_blank_lines_are_no_records(tmp_path: Path) -> None:
    assert [entry.number for entry in csv_entries(tmp_path, "", GOOD, "  ", GOOD, "")] == [1, 2]


def test_ndjson_keeps_every_digit(tmp_path: Path) -> None:
    record = (
        '{"InvoiceNo": 536365, "StockCode": "X", "Quantity": 6, "InvoiceDate": "2010-12-01 08:26:00",'
        ' "UnitPrice": 2.55000000000001, "CustomerID": 17850.0, "Country": "UK"}'
    )
    [line] = entries(tmp_path, record, "sales.ndjson")
    assert isinstance(line, RetailLine)
    assert (line.invoice, line.unit_price, line.customer) == ("536365", Decimal("2.55000000000001"), "17850")


@pytest.mark.parametrize(
    "line",
    ["[]", "{", '{"InvoiceNo": 1, "Surprise": 2}', "[" * 60_000, '{"InvoiceNo": true}', '{"InvoiceNo": "\\ud800"}'],
)
def test_a_broken_json_line_is_rejected(tmp_path: Path, line: str) -> None:
    good = json.dumps(dict(zip(COLUMNS, GOOD.split(","), strict=True)))
    kinds = [type(entry) for entry in entries(tmp_path, f"{line}\n{good}\n", "sales.jsonl")]
    assert kinds == [Rejected, RetailLine]


def test_gzip_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    text = b"\xef\xbb\xbf" + f"{HEADER}\r\n{GOOD}\r\n".encode()
    [line] = entries(tmp_path, gzip.compress(text), "SALES.CSV.GZ")
    assert isinstance(line, RetailLine)
    assert line.country == "United Kingdom"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("sales.csv", None, "no such file"),
        ("sales.csv", b"", "empty"),
        ("sales.xlsx", b"PK", "expected .csv"),
        ("sales.csv", b"a,b,c\n1,2,3\n", "unknown ['a', 'b', 'c']"),
        ("sales.csv", HEADER.encode() + b",Discount\n", "unknown ['Discount']"),
        ("sales.csv", HEADER.replace(",Country", "").encode() + b"\n", "missing ['Country']"),
        ("sales.csv", HEADER.encode("utf-16"), "header cannot be read"),
        ("sales.csv.gz", b"InvoiceNo,StockCode", "gzip"),
        ("sales.csv.gz", gzip.compress((HEADER + "\n" + f"{GOOD}\n" * 9_000).encode())[:-9], "cut off"),
    ],
)
def test_an_unreadable_file_is_refused_before_anything_is_sent(
    tmp_path: Path, name: str, content: bytes | None, reason: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableFile) as refusal:
        inspect(tmp_path / name)
    assert reason in str(refusal.value)


def test_a_file_without_line_ends_does_not_fill_memory(tmp_path: Path) -> None:
    path = tmp_path / "sales.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as out:
        out.write(HEADER.encode() + b"\n")
        for _ in range(200):
            out.write(b'"' * 1_000_000)
    code = "import sys, pathlib; from examples.shop import retail_file as f; print(*f.read(pathlib.Path(sys.argv[1])))"

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (150_000_000, 150_000_000))

    done = subprocess.run(
        [sys.executable, "-c", code, path],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=bounded,
        env=os.environ,
    )
    assert "longer than" in done.stdout, done.stderr
