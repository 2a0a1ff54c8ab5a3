"""The nightly report: one batch a night over the customers' groups, one row when none is left."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal

import pytest
import sqlalchemy as sa
from PIL import Image
from sqlalchemy.orm import Session

from actors import reports, tables
from sharding import batches
from smena.context import Context
from smena.job import Job
from smena.store import migrations


@pytest.fixture
def session(empty_database_url: str) -> Iterator[Session]:
    migrations.upgrade(empty_database_url, ["actors:migrations"])
    engine = sa.create_engine(empty_database_url.replace("postgresql://", "postgresql+psycopg://", 1))
    with Session(engine) as opened:
        yield opened
    engine.dispose()


def context(job_id: str) -> Context:
    return Context(Job(actor="reports.group", queue="reports", id=job_id))


def test_a_report_covers_every_order_and_is_summed_up_once(session: Session) -> None:
    customers = [None, *(str(number) for number in range(100, 140))]
    for number, customer in enumerate(customers):
        session.execute(
            sa.insert(tables.orders),
            {
                "invoice": str(number),
                "customer": customer,
                "country": "France",
                "placed_at": datetime(2011, number % 12 + 1, 1),  # noqa: DTZ001 - a wall time
                "lines": 1,
                "amount": Decimal(number) / 10,
            },
        )
    opened = reports.begin(session, "2011-12-10")
    again = reports.begin(session, "2011-12-10")
    assert (again.id, again.is_new) == (opened.id, False)
    groups = [item.item for item in batches.items(session, opened.id, "left")]
    assert 1 < len(groups) == len(set(groups)) == opened.total <= reports.GROUPS + 1
    for customers_of in groups:
        reports.group(context(f"j-{customers_of}"), session, customers_of, report="2011-12-10")
    reports.summarise(context("end"), session, opened.id, opened.total, opened.total, 0)
    [written] = session.execute(sa.select(tables.reports)).all()
    whole = sum((Decimal(number) / 10 for number in range(len(customers))), Decimal(0))
    assert written._asdict() == {
        "report": "2011-12-10",
        "groups": opened.total,
        "failed": 0,
        "invoices": len(customers),
        "amount": whole,
        "job_id": "end",
    }
    chart = session.scalar(sa.select(tables.report_groups.c.chart).limit(1))
    assert chart is not None
    assert Image.open(io.BytesIO(chart)).size == (320, 120)


def test_a_chart_is_the_same_however_often_it_is_drawn() -> None:
    amounts = [Decimal(number) for number in range(12)]
    assert reports.draw(amounts) == reports.draw(amounts)
