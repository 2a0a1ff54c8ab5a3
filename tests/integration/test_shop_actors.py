"""The shop's actors, called as the plain functions that they are, on a real database and a real provider."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa
from PIL import Image
from sqlalchemy.orm import Session

from actors import mail, payments, receipts, sales, stock, tables
from examples.shop.mail_behaviour import Behaviour
from smena.context import Context
from smena.job import Job
from smena.keyspace import partition_of
from smena.store import migrations
from tests.unit.test_mail_provider import provider

LINE = sales.Line(number=7, invoice="536365", stock_code="85123A", quantity=3, unit_price=Decimal("2.555"))


@pytest.fixture
def session(empty_database_url: str) -> Iterator[Session]:
    migrations.upgrade(empty_database_url, ["actors:migrations"])
    engine = sa.create_engine(empty_database_url.replace("postgresql://", "postgresql+psycopg://", 1))
    with Session(engine) as opened:
        yield opened
    engine.dispose()


def context(actor: str, job_id: str = "j1", **kwargs: object) -> Context:
    return Context(Job(actor=actor, queue=actor.partition(".")[0], id=job_id), **kwargs)  # type: ignore[arg-type]


def order(session: Session, customer: str | None) -> None:
    session.execute(
        sa.insert(tables.orders),
        {
            "invoice": "536365",
            "customer": customer,
            "country": "France",
            "placed_at": datetime(2010, 12, 1, 8, 26),  # noqa: DTZ001 - a wall time
            "lines": 2,
            "amount": Decimal("22.082"),
        },
    )


def test_a_line_becomes_a_sale_of_the_exact_amount(session: Session) -> None:
    sales.record(context("sales.record"), session, LINE)
    [sale] = session.execute(sa.select(tables.sales)).all()
    assert sale._asdict() == {
        "line_number": 7,
        "invoice": "536365",
        "stock_code": "85123A",
        "quantity": 3,
        "amount": Decimal("7.665"),
        "job_id": "j1",
    }


@pytest.mark.parametrize("price", ["0", "0.00", "-11062.06"])
def test_a_line_without_a_positive_price_is_no_sale(session: Session, price: str) -> None:
    with pytest.raises(sales.PriceNotPositive) as refusal:
        sales.record(
            context("sales.record"), session, sales.Line(1, "A563186", "B", quantity=1, unit_price=Decimal(price))
        )
    assert refusal.value.code == "price_not_positive"
    assert session.execute(sa.select(tables.sales)).all() == []


def test_each_move_keeps_its_place_and_the_level_after_it(session: Session) -> None:
    most = 2**31 - 1
    lines = [(3, "85123A", 6), (4, "22633", 1), (7, "85123A", -2), (8, "85123a", 5), (9, "85123A", -most - 1)]
    for line, code, quantity in lines:
        stock.apply(context("stock.apply", f"j{line}"), session, stock.Move(line, code, quantity))
    moves = session.execute(sa.select(tables.stock_moves).order_by("line_number")).all()
    assert [tuple(move) for move in moves] == [
        (3, "85123A", 1, 6, -6, "j3"),
        (4, "22633", 1, 1, -1, "j4"),
        (7, "85123A", 2, -2, -4, "j7"),
        (8, "85123a", 1, 5, -5, "j8"),
        (9, "85123A", 3, -most - 1, most - 3, "j9"),
    ]
    levels = session.execute(sa.select(tables.stock).order_by("moves", "level")).all()
    assert [tuple(level) for level in levels] == [("85123a", 1, -5), ("22633", 1, -1), ("85123A", 3, most - 3)]


def test_the_moves_of_a_stock_code_are_one_ordered_stream() -> None:
    sent = [stock.apply.message(stock.Move(line, "85123A", 1)) for line in (1, 2)]
    assert {(job.partition_key, job.partition) for job in sent} == {("85123A", partition_of("85123A", 32))}


def test_a_charge_and_its_mail_are_one_change(session: Session) -> None:
    order(session, "17850")
    payments.charge(context("payments.charge"), session, "536365")
    [charge] = session.execute(sa.select(tables.charges)).all()
    assert (charge.lines, charge.amount, charge.job_id) == (2, Decimal("22.082"), "j1")
    [body] = session.execute(sa.text("SELECT body FROM smena.outbox WHERE actor = 'mail.confirm'")).scalars()
    assert json.loads(bytes(body))["args"] == [{"invoice": "536365", "customer": "17850", "amount": "22.082"}]
    session.rollback()
    assert session.execute(sa.text("SELECT count(*) FROM smena.outbox")).scalar_one() == 0


def test_nobody_gets_a_mail_where_no_customer_is_named(session: Session) -> None:
    order(session, None)
    payments.charge(context("payments.charge"), session, "536365")
    assert session.execute(sa.text("SELECT actor FROM smena.outbox")).scalars().all() == ["receipts.render"]


def test_a_receipt_is_a_whole_image_and_a_row_with_its_hash(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMENA_APP_RECEIPTS_DIR", str(tmp_path))
    order(session, None)
    payments.charge(context("payments.charge"), session, "536365")
    receipts.render(context("receipts.render"), session, "536365")
    [row] = session.execute(sa.select(tables.receipts)).all()
    [file] = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert row.path == str(file.relative_to(tmp_path))
    assert row.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    with Image.open(file) as image:
        assert image.size == receipts.SIZE
    assert receipts.draw("536365", 2, Decimal("22.082")) == file.read_bytes()


def test_no_receipt_without_a_charge(session: Session) -> None:
    with pytest.raises(receipts.ChargeUnknown):
        receipts.render(context("receipts.render"), session, "536365")


@pytest.mark.parametrize("invoice", ["../../etc/passwd", "a/b", "€" * 300, ""])
def test_whatever_an_invoice_is_called_its_receipt_stays_in_the_folder(invoice: str, tmp_path: Path) -> None:
    path = tmp_path / receipts.file_of(invoice)
    receipts.put(path, receipts.draw(invoice, 1, Decimal("1.5")))
    assert path.resolve().is_relative_to(tmp_path)


def test_an_unknown_invoice_is_a_permanent_error(session: Session) -> None:
    with pytest.raises(payments.OrderUnknown):
        payments.charge(context("payments.charge"), session, "1")


CONFIRMATION = mail.Confirmation(invoice="536365", customer="17850", amount=Decimal("22.082"))


async def confirm(url: str) -> None:
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
        await mail.confirm(context("mail.confirm", "m1", resources={mail.provider: client}), CONFIRMATION)


async def test_a_mail_goes_out_under_the_jobs_id(tmp_path: Path) -> None:
    with provider(tmp_path, Behaviour(busy=0, down=0, slow=0, cut=0)) as (client, log):
        await confirm(str(client.base_url))
        await confirm(str(client.base_url))
    entries = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert [(entry["key"], entry["repeat"]) for entry in entries] == [("m1", False), ("m1", True)]
    assert entries[0]["mail"] == {"invoice": "536365", "customer": "17850", "amount": "22.082"}


async def test_a_busy_provider_is_an_error_with_its_status(tmp_path: Path) -> None:
    with provider(tmp_path, Behaviour(busy=1)) as (client, _), pytest.raises(httpx.HTTPStatusError) as error:
        await confirm(str(client.base_url))
    assert (error.value.response.status_code, error.value.response.headers["Retry-After"]) == (429, "1")


async def test_a_cut_connection_is_a_transient_error(tmp_path: Path) -> None:
    with (
        provider(tmp_path, Behaviour(busy=0, down=0, slow=0, cut=1)) as (client, _),
        pytest.raises(mail.ProviderLost),
    ):
        await confirm(str(client.base_url))


async def test_the_provider_is_a_setting_of_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMENA_APP_MAIL_URL", "http://127.0.0.1:9")
    async with mail.provider() as client:
        assert str(client.base_url) == "http://127.0.0.1:9"
