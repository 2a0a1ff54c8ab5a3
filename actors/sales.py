"""Record what was sold, line by line."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from sqlalchemy import insert
from sqlalchemy.orm import Session

from actors.tables import sales
from smena.book import Book
from smena.context import Context
from smena.errors import Permanent

book = Book("sales")


@dataclass(frozen=True, slots=True)
class Line:
    """One sold line; ``number`` is its place in the shop's file and names it for ever."""

    number: int
    invoice: str
    stock_code: str
    quantity: int
    unit_price: Decimal


class PriceNotPositive(Permanent):
    """A line without a positive price is not a sale."""

    code = "price_not_positive"


@book.actor(queue="sales", once=lambda line: str(line.number))
def record(ctx: Context, session: Session, /, line: Line) -> None:
    """Keep the line as a sale; raise `PriceNotPositive` for a gift, a write-off or a bad debt."""
    if line.unit_price <= 0:
        raise PriceNotPositive(line=line.number, price=line.unit_price)
    session.execute(
        insert(sales),
        {
            "line_number": line.number,
            "invoice": line.invoice,
            "stock_code": line.stock_code,
            "quantity": line.quantity,
            "amount": line.quantity * line.unit_price,
            "job_id": ctx.job.id,
        },
    )
