"""The publisher and the ledger read a file independently; whatever it holds, they must read the same."""

from __future__ import annotations

import tempfile
from decimal import Decimal
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from examples.shop.make_retail import Maker
from examples.shop.retail_file import read
from examples.shop.retail_line import Rejected
from workers.drills.sales_file import sold_lines

HEADER, *LINES = Maker().text(600).encode().splitlines(keepends=True)
SPLINTERS = [
    b'"', b'""', b",", b"\n", b"\r\n", b"\r", b"\0", b"\xff", b"1e5", b"-", b".0", b" ", b'"\n', b"\xc2\xa3", b"inf",
    b"\xed\xa0\x80", b"\xd9\xa3", b"\x0b", b"\x1f", b"\xc2\x85", b"\xe2\x80\xa8",
]  # fmt: skip

Wound = tuple[float, bytes, int]
"""Where (as a share of the text), what goes in, and how many bytes go out."""
wounds = st.tuples(st.floats(0, 1), st.sampled_from(SPLINTERS), st.integers(0, 30))


def wounded(text: bytes, hurt: list[Wound]) -> bytes:
    for place, splinter, cut in hurt:
        at = int(place * len(text))
        text = text[:at] + splinter + text[at + (cut if cut > 20 else 0) :]
    return text


@settings(max_examples=300)
@given(start=st.integers(0, len(LINES) - 1), count=st.integers(1, 80), hurt=st.lists(wounds, max_size=30))
def test_publisher_and_ledger_read_the_same_from_a_damaged_file(start: int, count: int, hurt: list[Wound]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sales.csv"
        path.write_bytes(HEADER + wounded(b"".join(LINES[start : start + count]), hurt))
        published = [
            entry.number
            if isinstance(entry, Rejected)
            else (entry.number, entry.invoice, entry.stock_code, entry.quantity, entry.unit_price, entry.customer)
            for entry in read(path)
        ]
        judged = [
            line
            if isinstance(line, int)
            else (
                line.number,
                line.invoice,
                line.stock_code,
                int(line.quantity),
                Decimal(line.unit_price),
                line.customer,
            )
            for line in sold_lines(path)
        ]
    assert published == judged
