"""The example's file is made, not drawn by hand: the same seed gives the same bytes, with a real file's shapes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from examples.shop.make_retail import Maker
from examples.shop.retail_file import read
from examples.shop.retail_line import RetailLine

SHIPPED = Path(__file__).parents[2] / "examples" / "retail.csv"


def lines() -> list[RetailLine]:
    return [entry for entry in read(SHIPPED) if isinstance(entry, RetailLine)]


def test_the_shipped_file_is_what_the_script_makes() -> None:
    assert SHIPPED.read_bytes() == Maker().text().encode()


def test_another_seed_makes_another_file_of_the_asked_size() -> None:
    text = Maker(seed=18).text(200)
    assert text != Maker(seed=17).text(200)
    assert len(text.splitlines()) == 201


def test_the_file_has_the_shapes_of_a_real_one() -> None:
    sold = lines()
    records = sum(1 for _ in read(SHIPPED))
    repeats = Counter((line.invoice, line.stock_code, line.quantity) for line in sold)
    assert 4_900 <= records <= 5_100
    assert 1 <= records - len(sold) <= 20, "a few broken lines"
    assert any(line.invoice.startswith("C") and line.quantity < 0 for line in sold)
    assert any(line.unit_price == 0 for line in sold)
    assert any(line.unit_price < 0 for line in sold)
    assert any(line.customer is None for line in sold)
    assert any(not line.description for line in sold)
    assert max(repeats.values()) > 1


def test_some_invoices_lines_do_not_stand_together() -> None:
    order = [line.invoice for line in lines()]
    blocks = Counter(invoice for invoice, before in zip(order, [None, *order], strict=False) if invoice != before)
    assert max(blocks.values()) > 1
