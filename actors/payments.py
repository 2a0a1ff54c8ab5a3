"""Charge invoices, have a receipt drawn for each, and a known customer's charge confirmed by mail."""

from __future__ import annotations

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from actors import mail, receipts
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
    """Charge the invoice; receipt and mail follow if, and only if, the charge commits."""
    order = session.execute(select(orders).where(orders.c.invoice == invoice)).one_or_none()
    if order is None:
        raise OrderUnknown(invoice=invoice)
    session.execute(
        insert(charges),
        {"invoice": invoice, "lines": order.lines, "amount": order.amount, "job_id": ctx.job.id},
    )
    follow = [receipts.render.message(invoice)]
    if order.customer is not None:
        told = mail.Confirmation(invoice=invoice, customer=order.customer, amount=order.amount)
        follow.append(mail.confirm.message(told))
    outbox.add(session, *follow)
