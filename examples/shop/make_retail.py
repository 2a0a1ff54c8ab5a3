"""Make `examples/retail.csv`: about 5,000 lines of invented sales with the shapes of a real shop's file.

    python -m examples.shop.make_retail [OUT] [--lines N] [--seed N]

The shapes are those of the UCI *Online Retail* set: invoices of one to many lines, repeats of a line,
cancellations (`C…`, negative quantities), lines without customer or description, prices of zero and
below, quoted commas and inches. Beyond that set, a few invoices' lines do not stand together and a few
lines are broken. The same seed gives the same bytes on every Python: only `random()` is drawn.
"""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import TypeVar

from examples.shop.retail_line import COLUMNS

SEED = 17
LINES = 5_000
_DEFAULT_OUT = Path(__file__).parent.parent / "retail.csv"

_T = TypeVar("_T")

_COLOURS = ("RED", "BLUE", "IVORY", "GREEN", "VINTAGE", "SILVER", "OAK", "STRIPED")
_THINGS = (
    "TEA TOWEL", "CANDLE HOLDER", "LUNCH BOX", "PHOTO FRAME 7\" SINGLE", "DOOR MAT", "CAKE TIN", "WALL CLOCK",
    "GARDEN TROWEL", "PENCIL CASE", "STORAGE JAR", "HOT WATER BOTTLE", "PAPER CHAIN, SET OF 2", "MUG", "LANTERN",
)  # fmt: skip
_COUNTRIES = ("United Kingdom",) * 17 + ("France", "Germany", "EIRE", "Norway")
_QUANTITIES = (1, 1, 1, 2, 2, 3, 4, 6, 6, 8, 12, 12, 24, 48, 144)
_BROKEN = (
    "990001,22001,RED MUG,six,2010-12-02 10:00:00,1.25,14001.0,France",
    "990002,22002,BLUE MUG,6,2010-12-02 10:01:00,1,25,14001.0,France",
    "990003,22003,IVORY MUG,6,2010-12-02",
    ",22004,GREEN MUG,6,2010-12-02 10:03:00,1.25,14001.0,France",
    '990005,22005,"OAK MUG,6,2010-12-02 10:04:00,1.25,14001.0,France',
    "990006,22006,SILVER MUG,6,2010-13-45 10:05:00,1.25,14001.0,France",
    "990007,22007,STRIPED MUG,6,2010-12-02 10:06:00,free,14001.0,France",
)


@dataclass(frozen=True, slots=True)
class _Product:
    stock_code: str
    description: str
    price: str


@dataclass(frozen=True, slots=True)
class _Row:
    invoice: str
    stock_code: str
    description: str
    quantity: int
    placed_at: datetime
    price: str
    customer: str
    country: str


class Maker:
    """Draw the file's rows from one seed."""

    def __init__(self, seed: int = SEED) -> None:
        self._random = Random(seed)
        self._products = [self._product(number) for number in range(400)]
        self._moment = datetime(2010, 12, 1, 8, 26)  # noqa: DTZ001 - a shop's wall time, as in the real set
        self._invoice = 540_000

    def text(self, lines: int = LINES) -> str:
        """Return the whole file with about that many records."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(COLUMNS)
        every = lines // (len(_BROKEN) + 1) or 1
        broken = list(_BROKEN)
        for count, row in enumerate(self._rows(lines - len(_BROKEN)), 1):
            writer.writerow(_fields(row))
            if broken and count % every == 0:
                out.write(broken.pop(0) + "\n")
        return out.getvalue()

    def _rows(self, lines: int) -> Iterator[_Row]:
        made = 0
        while made < lines:
            rows = self._some_invoices()[: lines - made]
            made += len(rows)
            yield from rows

    def _some_invoices(self) -> list[_Row]:
        """Return one invoice's rows, now and then two invoices' rows mixed."""
        rows = self._one_invoice()
        return self._mixed(rows, self._one_invoice()) if self._happens(0.03) else rows

    def _mixed(self, left: list[_Row], right: list[_Row]) -> list[_Row]:
        mixed: list[_Row] = []
        while left and right:
            mixed.append((left if self._happens(0.5) else right).pop(0))
        return mixed + left + right

    def _one_invoice(self) -> list[_Row]:
        self._invoice += 1 + self._below(3)
        self._moment += timedelta(minutes=1 + self._below(12))
        if self._happens(0.14):
            return self._cancellation()
        if self._happens(0.05):
            return [self._write_off()]
        first = self._sale(self._customer(), self._one_of(_COUNTRIES))
        rows = [first]
        for _ in range(self._below(40)):
            repeat = self._happens(0.01)
            rows.append(rows[-1] if repeat else self._sale(first.customer, first.country))
        return rows

    def _sale(self, customer: str, country: str) -> _Row:
        product = self._one_of(self._products)
        return _Row(
            invoice=str(self._invoice),
            stock_code=product.stock_code,
            description=product.description,
            quantity=self._one_of(_QUANTITIES),
            placed_at=self._moment,
            price="0.0" if self._happens(0.004) else product.price,
            customer=customer,
            country=country,
        )

    def _cancellation(self) -> list[_Row]:
        sale = self._sale(self._customer(), self._one_of(_COUNTRIES))
        return [replace(sale, invoice=f"C{self._invoice}", quantity=-sale.quantity)]

    def _write_off(self) -> _Row:
        """Return a line of the shop's own bookkeeping: nothing described and no price, or a bad debt."""
        sale = self._sale("", "United Kingdom")
        if self._happens(0.1):
            debt = f"-{100 + self._below(9_000)}.06"
            bad_debt = replace(sale, stock_code="B", description="Adjust bad debt", quantity=1, price=debt)
            return replace(bad_debt, invoice=f"A{self._invoice}")
        quantity = -sale.quantity if self._happens(0.5) else sale.quantity
        return replace(sale, description="", quantity=quantity, price="0.0")

    def _product(self, number: int) -> _Product:
        code = f"{21_000 + number}{self._one_of(('', '', '', 'A', 'B'))}"
        pence = (self._below(15) + 1) * 100 - self._one_of((1, 5, 15, 25, 58))
        price = f"{pence // 100}.{pence % 100:02d}"
        return _Product(code, f"{self._one_of(_COLOURS)} {self._one_of(_THINGS)}", price.removesuffix("0"))

    def _customer(self) -> str:
        return "" if self._happens(0.25) else f"{13_000 + self._below(900)}.0"

    def _below(self, bound: int) -> int:
        return int(self._random.random() * bound)

    def _one_of(self, choices: Sequence[_T]) -> _T:
        return choices[self._below(len(choices))]

    def _happens(self, chance: float) -> bool:
        return self._random.random() < chance


def _fields(row: _Row) -> tuple[str | int, ...]:
    return (
        row.invoice, row.stock_code, row.description, row.quantity, row.placed_at.isoformat(" "), row.price,
        row.customer, row.country,
    )  # fmt: skip


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description="Make a file of invented sales.")
    parser.add_argument("out", nargs="?", type=Path, default=_DEFAULT_OUT)
    parser.add_argument("--lines", type=int, default=LINES)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    text = Maker(options.seed).text(options.lines)
    options.out.write_text(text, encoding="utf-8", newline="")
    print(f"{options.out}: {options.lines} lines")


if __name__ == "__main__":
    main()
