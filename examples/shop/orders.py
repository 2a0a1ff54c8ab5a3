"""Keep the lines of the file until it ends, then write each invoice's order with its charge.

Lines of one invoice need not stand together, so no invoice is whole before the file ends. The lines wait
in a temporary table of the publisher's session, not in its memory; the database adds them up exactly. An
order and the outbox row of its `payments.charge` are one transaction: one exists exactly if the other does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import psycopg

from examples.shop.retail_line import RetailLine
from smena import outbox
from smena.book import by_name

CHARGE: Final = by_name("payments.charge", queue="payments")

_BATCH: Final = 500
_ARRIVED: Final = """
CREATE TEMP TABLE arrived (
    number bigint, invoice text, quantity integer, unit_price numeric, placed_at timestamp, customer text, country text
)
"""
_COPY: Final = "COPY arrived FROM STDIN"
_INVOICES: Final = """
CREATE TEMP TABLE invoiced AS
SELECT row_number() OVER (ORDER BY min(number)) AS place,
       invoice,
       (array_agg(customer ORDER BY number) FILTER (WHERE customer IS NOT NULL))[1] AS customer,
       (array_agg(country ORDER BY number))[1] AS country,
       min(placed_at) AS placed_at,
       count(*) AS lines,
       sum(quantity * unit_price) AS amount
FROM arrived GROUP BY invoice
"""
_ORDERS: Final = """
INSERT INTO shop.orders (invoice, customer, country, placed_at, lines, amount)
SELECT invoice, customer, country, placed_at, lines, amount
FROM invoiced WHERE place > %(after)s AND place <= %(after)s + %(batch)s ORDER BY place
ON CONFLICT (invoice) DO NOTHING
RETURNING invoice
"""


class Orders:
    """The orders of one file, on a psycopg connection in autocommit that is the publisher's own."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        connection.execute(_ARRIVED)

    def keep(self, lines: Sequence[RetailLine]) -> None:
        """Remember a few lines."""
        with self._connection.cursor() as cursor, cursor.copy(_COPY) as copy:
            for line in lines:
                copy.write_row(
                    (
                        line.number,
                        line.invoice,
                        line.quantity,
                        line.unit_price,
                        line.placed_at,
                        line.customer,
                        line.country,
                    )
                )

    def place(self) -> Iterator[int]:
        """Write all orders with their charges, in the file's order; yield how many each transaction wrote.

        An order that an earlier run wrote stays as it is and is not charged again.
        """
        invoices = self._connection.execute(_INVOICES).rowcount
        self._connection.execute("CREATE INDEX ON invoiced (place)")
        for after in range(0, invoices, _BATCH):
            with self._connection.transaction(), self._connection.cursor() as cursor:
                placed = cursor.execute(_ORDERS, {"after": after, "batch": _BATCH}).fetchall()
                outbox.add(self._connection, *(CHARGE.message(invoice) for (invoice,) in placed))
            yield len(placed)
