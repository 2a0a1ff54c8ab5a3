"""Keep the stock of each article, move by move, in the order of the shop's file.

Every line that the file's reader accepts moves stock, also one without a price: a gift, a breakage or a write-off
leaves the shelf as a sale does, though `sales.record` refuses it. What was there before the file is not known, so a
level counts from zero and may be negative.

A level depends on all moves before it, so the moves of one stock code are worked one after the other, in the order of
their sending; those of different codes side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from actors.tables import stock, stock_moves
from smena.book import Book
from smena.context import Context

book = Book("stock")

PARTITIONS: Final = 32
"""Senders that name the actor without its code must say the same number."""


@dataclass(frozen=True, slots=True)
class Move:
    """What one line of the shop's file takes from the stock; of a cancellation the quantity is negative."""

    line: int
    stock_code: str
    quantity: int


def _statement() -> sa.Insert:
    """Return the one statement that moves the stock and keeps the move with its place and the level after it."""
    first = insert(stock).values(
        stock_code=sa.bindparam("code"), moves=1, level=-sa.bindparam("sold", type_=sa.BigInteger)
    )
    # The row of the code is locked until the commit, so a place is given once whoever asks.
    moved = (
        first.on_conflict_do_update(
            index_elements=[stock.c.stock_code],
            set_={"moves": stock.c.moves + 1, "level": stock.c.level + first.excluded.level},
        )
        .returning(stock.c.stock_code, stock.c.moves, stock.c.level)
        .cte("moved")
    )
    kept = sa.select(
        sa.bindparam("line", type_=sa.BigInteger),
        moved.c.stock_code,
        moved.c.moves,
        sa.bindparam("quantity", type_=sa.Integer),
        moved.c.level,
        sa.bindparam("job_id", type_=sa.Text),
    )
    return sa.insert(stock_moves).from_select(["line_number", "stock_code", "nth", "quantity", "level", "job_id"], kept)


_MOVE: Final = _statement()


@book.actor(
    queue="stock",
    partition_by=lambda move: move.stock_code,
    partitions=PARTITIONS,
    on_dead="block",
    once=lambda move: str(move.line),
)
def apply(ctx: Context, session: Session, /, move: Move) -> None:
    """Take the line's quantity from the stock of its code, after all lines of that code that were sent before."""
    session.execute(
        _MOVE,
        {
            "line": move.line,
            "code": move.stock_code,
            "sold": move.quantity,
            "quantity": move.quantity,
            "job_id": ctx.job.id,
        },
    )
