"""Make a sale's line out of the eight fields of the *Online Retail* columns, or say why not.

What is accepted (anything else is a `Malformed` with the column's name):

| column | accepted |
|---|---|
| InvoiceNo, StockCode | 1 to 64 characters, not blank, kept as they are |
| Description, Country | up to 1,000 characters, may be empty |
| Quantity | a whole number within 32 bits; `6.0` reads as 6 |
| InvoiceDate | `2010-12-01 08:26:00` (seconds may be missing) or `12/1/2010 8:26` (month first) |
| UnitPrice | an exact decimal of at most 15 digits on each side of the point; zero and below are fine |
| CustomerID | empty, or up to 15 digits; `17850.0` reads as `17850` |

No field may hold NUL or half a surrogate pair: PostgreSQL cannot keep them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from smena.errors import Refused

COLUMNS = ("InvoiceNo", "StockCode", "Description", "Quantity", "InvoiceDate", "UnitPrice", "CustomerID", "Country")

_CODE_MAX = 64
_TEXT_MAX = 1_000
_QUANTITY_BOUND = 2**31

_WHOLE = re.compile(r"([+-]?[0-9]{1,15})(?:\.0+)?")
_EXACT = re.compile(r"[+-]?[0-9]{1,15}(?:\.[0-9]{1,15})?")
_CUSTOMER = re.compile(r"([0-9]{1,15})(?:\.0+)?")
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}(?::[0-9]{2})?")
_MONTH_FIRST = "%m/%d/%Y %H:%M"
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class Malformed(Refused):
    """The line cannot be read as a sale's line; the detail says which column and why."""


@dataclass(frozen=True, slots=True)
class RetailLine:
    """One line of the file. ``number`` counts records after the header, from 1; times are the shop's own."""

    number: int
    invoice: str
    stock_code: str
    description: str
    quantity: int
    placed_at: datetime
    unit_price: Decimal
    customer: str | None
    country: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """A record that cannot be a sale's line, and why."""

    number: int
    reason: str


def line_of(number: int, fields: Sequence[str]) -> RetailLine:
    """Read the eight fields in the order of `COLUMNS`; raise `Malformed` naming the first bad column."""
    invoice, stock_code, description, quantity, placed_at, unit_price, customer, country = fields
    return RetailLine(
        number,
        _code("InvoiceNo", invoice),
        _code("StockCode", stock_code),
        _text("Description", description),
        _quantity(quantity),
        _moment(placed_at),
        _price(unit_price),
        _customer(customer),
        _text("Country", country),
    )


def _code(column: str, value: str) -> str:
    if not value or len(value) > _CODE_MAX or value.isspace():
        raise Malformed(f"{column} must have 1 to {_CODE_MAX} characters")
    return _storable(column, value)


def _text(column: str, value: str) -> str:
    if len(value) > _TEXT_MAX:
        raise Malformed(f"{column} is longer than {_TEXT_MAX} characters")
    return _storable(column, value)


def _storable(column: str, value: str) -> str:
    if _UNSTORABLE.search(value):
        raise Malformed(f"{column} holds a NUL or half a surrogate pair")
    return value


def _quantity(value: str) -> int:
    found = _WHOLE.fullmatch(value)
    number = int(found[1]) if found else _QUANTITY_BOUND
    if not -_QUANTITY_BOUND <= number < _QUANTITY_BOUND:
        raise Malformed("Quantity is not a whole number within 32 bits")
    return number


def _price(value: str) -> Decimal:
    if not _EXACT.fullmatch(value):
        raise Malformed("UnitPrice is not a plain decimal number")
    return Decimal(value)


def _customer(value: str) -> str | None:
    if not value:
        return None
    found = _CUSTOMER.fullmatch(value)
    if not found:
        raise Malformed("CustomerID is not a number")
    return found[1]


def _moment(value: str) -> datetime:
    try:
        if _ISO_DATE.fullmatch(value):
            return datetime.fromisoformat(value)
        return datetime.strptime(value, _MONTH_FIRST)  # noqa: DTZ007 - the shop's own wall time, without zone
    except ValueError:
        raise Malformed("InvoiceDate is not a date and time") from None
