"""Charge invoices, and have a known customer's charge confirmed by mail."""

from __future__ import annotations

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from actors import mail
from actors.tables import charges, orders
from smena import outbox
from smena.book import Book
from smena.context import Context
from smena.errors import Permanent

book = Book("payments")


class OrderUnknown(Permanent):
    """There is no order of this invoice number."""

    code = "order_unknown"


@book.actor(queue="payments", once=lambda invoice: invoice)
def charge(ctx: Context, session: Session, /, invoice: str) -> None:
    """Charge the invoice; the customer's mail is sent if, and only if, the charge commits."""
    order = session.execute(select(orders).where(orders.c.invoice == invoice)).one_or_none()
    if order is None:
        raise OrderUnknown(invoice=invoice)
    session.execute(
        insert(charges),
        {"invoice": invoice, "lines": order.lines, "amount": order.amount, "job_id": ctx.job.id},
    )
    if order.customer is not None:
        receipt = mail.Confirmation(invoice=invoice, customer=order.customer, amount=order.amount)
        outbox.add(session, mail.confirm.message(receipt))
