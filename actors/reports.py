"""Report every night on all orders: the schedule opens a batch, all workers draw, the batch's end writes the summary.

Who leads the schedule only opens the batch. Its items are groups of customers; each is added up in the database, its
chart is drawn in the process pool, and sums and chart are kept in one transaction with the item's mark. When no group
is left, `summarise` writes one row. A report is made once: batch and rows carry its name.
"""

from __future__ import annotations

import hashlib
import io
from decimal import Decimal
from typing import Final

import sqlalchemy as sa
from PIL import Image, ImageDraw
from sqlalchemy.orm import Session

from actors.tables import orders, report_groups, reports
from sharding import batches
from smena.book import Book
from smena.context import Context
from smena.timetable import cron

book = Book("reports")

GROUPS: Final = 50
"""Groups that customers fall into, by a hash of their number; those without a number are one more."""

DRAW_S: Final = 10.0
_SLICE: Final = 4
"""Groups that a worker takes at once: so few that all workers have a share of them."""

_SIZE: Final = (320, 120)
_BARS: Final = 12

_group = sa.case(
    (orders.c.customer.is_(None), "none"),
    # As a bigint: the least integer has no absolute value.
    else_=sa.cast(sa.func.abs(sa.cast(sa.func.hashtext(orders.c.customer), sa.BigInteger)) % GROUPS, sa.Text),
)


@book.actor(queue="reports", schedule=cron("0 3 * * *", tz="Europe/London"))
def nightly(ctx: Context, session: Session, /) -> None:
    """Open the report of the night that was planned, once, however often it is asked for."""
    night = ctx.clock.now() if ctx.tick is None else ctx.tick.at
    begin(session, f"{night:%Y-%m-%d}")


def begin(session: Session, report: str) -> batches.Batch:
    """Open the batch of a report of this name, in the caller's transaction."""
    groups = sa.select(_group.label("customers")).distinct()
    return batches.open(
        session,
        group,
        groups,
        key=f"report-{report}",
        then=summarise,
        kwargs={"report": report},
        largest_slice=_SLICE,
    )


@book.actor(queue="reports")
def group(ctx: Context, session: Session, /, customers: str, *, report: str) -> None:
    """Add up what a group of customers ordered, month by month, and draw it."""
    month = sa.func.extract("month", orders.c.placed_at)
    query = sa.select(month, sa.func.count(), sa.func.sum(orders.c.amount)).where(_group == customers).group_by(month)
    rows = session.execute(query).all()
    amounts = [Decimal(0)] * _BARS
    for number, _, amount in rows:
        amounts[int(number) - 1] += amount
    chart = ctx.cpu(draw, amounts, timeout_s=DRAW_S)
    kept = {
        "report": report,
        "customers": customers,
        "invoices": sum(count for _, count, _ in rows),
        "amount": sum(amounts),
        "chart": chart,
        "sha256": hashlib.sha256(chart).hexdigest(),
        "job_id": ctx.job.id,
    }
    session.execute(sa.insert(report_groups), kept)


@book.actor(queue="reports", once=lambda batch, **_counts: str(batch))
def summarise(ctx: Context, session: Session, /, batch: int, total: int, done: int, dead: int) -> None:
    """Write the report's one row: what its groups came to, and how many of them failed."""
    key = batches.status(session, batch).key or ""
    report = key.removeprefix("report-")
    sums = sa.select(
        sa.literal(report),
        sa.func.count(),
        sa.literal(dead),
        sa.func.coalesce(sa.func.sum(report_groups.c.invoices), 0),
        sa.func.coalesce(sa.func.sum(report_groups.c.amount), 0),
        sa.literal(ctx.job.id),
    ).where(report_groups.c.report == report)
    columns = ["report", "groups", "failed", "invoices", "amount", "job_id"]
    session.execute(sa.insert(reports).from_select(columns, sums))
    ctx.log.info("report.written", report=report, groups=total, drawn=done)


def draw(amounts: list[Decimal]) -> bytes:
    """Return a bar for each month as PNG; the same amounts give the same bytes. A CPU step."""
    image = Image.new("1", _SIZE, color=1)
    pen = ImageDraw.Draw(image)
    most = max([abs(amount) for amount in amounts] + [Decimal(1)])
    width = _SIZE[0] // _BARS
    for month, amount in enumerate(amounts):
        height = int(abs(amount) / most * (_SIZE[1] - 10))
        pen.rectangle((month * width + 2, _SIZE[1] - 5 - height, (month + 1) * width - 2, _SIZE[1] - 5), fill=0)
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()
