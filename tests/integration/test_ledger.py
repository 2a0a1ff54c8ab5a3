"""The ledger finds what was lost, doubled or changed, and believes nobody."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from actors import receipts as shop_receipts
from workers.drills.ledger import Verdict, judge

Connection = psycopg.Connection[Any]
SALES = """\
InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country
536365,85123A,HOLDER,6,2010-12-01 08:26:00,2.55,17850.0,United Kingdom
536365,71053,LANTERN,2,2010-12-01 08:26:00,3.391,17850.0,United Kingdom
536366,22633,,1,2010-12-01 08:28:00,0.0,,United Kingdom
this is not a line
C536367,85123A,WARMER,-1,2010-12-01 08:30:00,1.85,13047.0,United Kingdom
"""
SHOP = """
CREATE SCHEMA shop;
CREATE TABLE shop.sales (line_number bigint, invoice text, stock_code text, quantity int, amount numeric, job_id text);
CREATE TABLE shop.charges (invoice text, lines int, amount numeric, job_id text);
CREATE TABLE shop.receipts (invoice text, path text, sha256 text, job_id text);
CREATE TABLE shop.stock (stock_code text, moves int, level bigint);
CREATE TABLE shop.stock_moves (
    line_number bigint, stock_code text, nth int, quantity int, level bigint, job_id text
);
CREATE TABLE shop.report_groups (report text, customers text, invoices int, amount numeric, chart bytea, sha256 text);
CREATE TABLE shop.reports (report text, groups int, failed int, invoices bigint, amount numeric);
CREATE SCHEMA smena;
CREATE TABLE smena.dead_letters (job_id text, actor text, reason text, body bytea);
INSERT INTO shop.sales VALUES
    (1, '536365', '85123A', 6, 15.3, 's1'),
    (2, '536365', '71053', 2, 6.782, 's2'),
    (5, 'C536367', '85123A', -1, -1.85, 's5');
INSERT INTO shop.stock VALUES ('85123A', 2, -5), ('71053', 1, -2), ('22633', 1, -1);
INSERT INTO shop.stock_moves VALUES
    (1, '85123A', 1, 6, -6, 't1'), (2, '71053', 1, 2, -2, 't2'), (3, '22633', 1, 1, -1, 't3'),
    (5, '85123A', 2, -1, -5, 't5');
INSERT INTO shop.report_groups
    SELECT 'night', customers, 1, amount, chart, encode(sha256(chart), 'hex')
    FROM (SELECT decode('89504e470d0a1a0a', 'hex') AS chart) AS charts,
         (VALUES ('none', 0.0), ((abs(hashtext('17850')) % 50)::text, 22.082),
                 ((abs(hashtext('13047')) % 50)::text, -1.85)) AS sums (customers, amount);
INSERT INTO shop.reports VALUES ('night', 3, 0, 3, 20.232);
INSERT INTO shop.charges VALUES
    ('536365', 2, 22.082, 'c1'), ('536366', 1, 0.0, 'c2'), ('C536367', 1, -1.85, 'c3');
INSERT INTO smena.dead_letters VALUES
    ('s3', 'sales.record', 'price_not_positive', '{"args": [{"number": 3}], "kwargs": {}}');
"""
CHARGES = [("536365", 2, "22.082"), ("536366", 1, "0.0"), ("C536367", 1, "-1.85")]
MAILS = [("m1", "536365", "17850", "22.082"), ("m3", "C536367", "13047", "-1.85")]


@pytest.fixture
def connection(empty_database_url: str) -> Iterator[Connection]:
    """A shop after a perfect run."""
    with psycopg.connect(empty_database_url, autocommit=True) as connected:
        connected.execute(SHOP)
        yield connected


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    path = tmp_path / "sales.csv"
    path.write_text(SALES, encoding="utf-8")
    return path


@pytest.fixture
def mails(tmp_path: Path) -> Path:
    path = tmp_path / "mails.jsonl"
    for mail in MAILS:
        take(path, *mail)
    return path


def take(log: Path, key: str, invoice: str, customer: str, amount: str) -> None:
    mail = {"invoice": invoice, "customer": customer, "amount": amount}
    with log.open("a", encoding="utf-8") as out:
        out.write(json.dumps({"key": key, "repeat": False, "mail": mail}) + "\n")


@pytest.fixture
def receipts(connection: Connection, tmp_path: Path) -> Path:
    """A receipt for each charge, drawn and kept by the shop's own code."""
    folder = tmp_path / "receipts"
    for number, (invoice, lines, amount) in enumerate(CHARGES):
        image = shop_receipts.draw(invoice, lines, Decimal(amount))
        path = shop_receipts.file_of(invoice)
        shop_receipts.put(folder / path, image)
        row = (invoice, str(path), hashlib.sha256(image).hexdigest(), f"r{number}")
        connection.execute("INSERT INTO shop.receipts VALUES (%s, %s, %s, %s)", row)
    return folder


@pytest.fixture
def judged(connection: Connection, sales: Path, mails: Path, receipts: Path) -> Callable[..., Verdict]:
    """Run a statement against the perfect shop, then judge it."""

    def after(statement: str = "SELECT 1") -> Verdict:
        connection.execute(statement.encode())
        return judge(connection, sales, mails, receipts)

    return after


def test_a_perfect_run_holds(judged: Callable[..., Verdict]) -> None:
    verdict = judged()
    assert verdict == Verdict(
        accepted=7,
        effects=6,
        lost=0,
        doubled=0,
        wrong=0,
        dead=1,
        dead_by_reason={"price_not_positive": 1},
        rejected=1,
        mails=2,
        receipts=3,
        stock_moves=4,
        order_violations=0,
        reports=1,
        report_groups=3,
        amount="20.232",
    )
    assert verdict.holds


@pytest.mark.parametrize(
    ("fault", "lost", "doubled", "wrong", "finding"),
    [
        ("DELETE FROM shop.charges WHERE invoice = '536366'", 1, 0, 0, "charge_missing 536366"),
        ("DELETE FROM shop.sales WHERE line_number = 2", 1, 0, 0, "sale_missing 2"),
        ("DELETE FROM smena.dead_letters", 1, 0, 0, "sale_missing 3"),
        ("UPDATE shop.charges SET amount = 22.08 WHERE invoice = '536365'", 0, 0, 1, "charge_wrong 536365"),
        ("UPDATE shop.charges SET lines = 1 WHERE invoice = '536365'", 0, 0, 1, "charge_wrong 536365"),
        ("UPDATE shop.receipts SET sha256 = '' WHERE invoice = '536365'", 0, 0, 1, "receipt_wrong 536365"),
        ("INSERT INTO shop.receipts SELECT * FROM shop.receipts LIMIT 1", 0, 1, 0, "receipt_doubled 536365"),
        ("UPDATE shop.sales SET amount = -1.86 WHERE line_number = 5", 0, 0, 1, "sale_wrong 5"),
        ("UPDATE shop.sales SET quantity = NULL WHERE line_number = 5", 0, 0, 1, "sale_wrong 5"),
        ("INSERT INTO shop.sales VALUES (4, 'x', 'y', 1, 1, 's4')", 0, 0, 1, "sale_wrong 4"),
        ("INSERT INTO shop.charges VALUES ('9', 1, 1, 'c9')", 0, 0, 1, "charge_wrong 9"),
        ("INSERT INTO shop.sales SELECT * FROM shop.sales WHERE line_number = 1", 0, 1, 0, "sale_doubled 1"),
        ("INSERT INTO shop.charges SELECT * FROM shop.charges WHERE lines = 2", 0, 1, 0, "charge_doubled 536365"),
        (
            "INSERT INTO shop.sales VALUES (3, '536366', '22633', 1, 0, 's3')",
            0, 0, 1, "sale_wrong 3",
        ),
        (
            """DELETE FROM shop.sales WHERE line_number = 1; INSERT INTO smena.dead_letters VALUES
               ('s1', 'sales.record', 'unexpected', '{"args": [{"number": 1}], "kwargs": {}}')""",
            0, 0, 1, "sale_died_without_cause 1",
        ),
        (
            "INSERT INTO smena.dead_letters VALUES ('m1', 'mail.confirm', 'transient', '\\xff')",
            0, 0, 1, "mail_died_without_cause None",
        ),
        ("DELETE FROM shop.stock_moves WHERE line_number = 2", 1, 0, 0, "stock_missing 2"),
        ("INSERT INTO shop.stock_moves VALUES (4, 'x', 1, 1, -1, 't4')", 0, 0, 1, "stock_wrong 4"),
        ("UPDATE shop.stock_moves SET level = -4 WHERE line_number = 5", 0, 0, 1, "stock_wrong 5"),
        ("UPDATE shop.stock_moves SET nth = 3 WHERE line_number = 5", 0, 0, 1, "stock_wrong 5"),
        ("UPDATE shop.stock SET level = -6 WHERE stock_code = '85123A'", 0, 0, 1, "stock_level_wrong 85123A"),
        ("DELETE FROM shop.stock WHERE stock_code = '71053'", 0, 0, 1, "stock_level_wrong 71053"),
        (
            """INSERT INTO smena.dead_letters VALUES
               ('t2', 'stock.apply', 'unexpected', '{"args": [{"line": 2}], "kwargs": {}}')""",
            0, 0, 1, "stock_died_without_cause 2",
        ),
        ("DELETE FROM shop.reports", 1, 0, 0, "report_missing summary"),
        ("INSERT INTO shop.reports SELECT * FROM shop.reports", 0, 1, 0, "report_doubled night"),
        ("UPDATE shop.reports SET amount = 20.23", 0, 0, 1, "report_wrong night"),
        ("UPDATE shop.reports SET failed = 1", 0, 0, 1, "report_wrong night"),
        ("DELETE FROM shop.report_groups WHERE customers = 'none'", 1, 0, 0, "report_group_missing none"),
        (
            "INSERT INTO shop.report_groups SELECT * FROM shop.report_groups WHERE customers = 'none'",
            0, 1, 0, "report_group_doubled none",
        ),
        ("UPDATE shop.report_groups SET amount = 1 WHERE customers = 'none'", 0, 0, 1, "report_group_wrong none"),
        ("UPDATE shop.report_groups SET sha256 = '' WHERE customers = 'none'", 0, 0, 1, "report_group_wrong none"),
        (
            "INSERT INTO smena.dead_letters VALUES ('n', 'reports.summarise', 'unexpected', '{}')",
            0, 0, 1, "report_died_without_cause n",
        ),
        (
            "INSERT INTO smena.dead_letters VALUES ('z', NULL, 'undecodable', '')",
            0, 0, 1, "unknown_died z",
        ),
    ],
)  # fmt: skip
def test_a_fault_in_the_database_is_named(
    judged: Callable[..., Verdict], fault: str, lost: int, doubled: int, wrong: int, finding: str
) -> None:
    verdict = judged(fault)
    assert (verdict.lost, verdict.doubled, verdict.wrong, verdict.examples) == (lost, doubled, wrong, [finding])
    assert not verdict.holds


def test_moves_that_took_effect_in_another_order_are_told_of_though_every_sum_is_right(
    judged: Callable[..., Verdict],
) -> None:
    verdict = judged(
        """UPDATE shop.stock_moves SET nth = 2, level = -5 WHERE line_number = 1;
           UPDATE shop.stock_moves SET nth = 1, level = 1 WHERE line_number = 5"""
    )
    assert (verdict.lost, verdict.doubled, verdict.wrong, verdict.order_violations) == (0, 0, 0, 1)
    assert verdict.examples == ["stock_out_of_order 1"]
    assert not verdict.holds


def test_a_move_that_took_effect_twice_is_doubled(judged: Callable[..., Verdict]) -> None:
    verdict = judged("INSERT INTO shop.stock_moves VALUES (2, '71053', 2, 2, -4, 't2')")
    assert (verdict.lost, verdict.doubled, verdict.order_violations) == (0, 1, 0)
    assert verdict.examples == ["stock_doubled 2"]


@pytest.mark.parametrize(
    ("mail", "lost", "doubled", "wrong", "finding"),
    [
        (("m4", "536365", "17850", "22.082"), 0, 1, 0, "mail_doubled 536365"),
        (("m4", "536366", "1", "0"), 0, 0, 1, "mail_wrong 536366"),
        (("m4", "777", "1", "0"), 0, 0, 1, "mail_wrong 777"),
    ],
)
def test_a_mail_too_many_is_named(
    judged: Callable[..., Verdict],
    mails: Path,
    mail: tuple[str, str, str, str],
    lost: int,
    doubled: int,
    wrong: int,
    finding: str,
) -> None:
    take(mails, *mail)
    verdict = judged()
    assert (verdict.lost, verdict.doubled, verdict.wrong, verdict.examples) == (lost, doubled, wrong, [finding])
    assert not verdict.holds


def test_a_repeated_key_is_one_mail(judged: Callable[..., Verdict], mails: Path) -> None:
    take(mails, *MAILS[0])
    verdict = judged()
    assert verdict.holds
    assert verdict.mails == 2


def test_a_missing_mail_is_lost(judged: Callable[..., Verdict], mails: Path) -> None:
    mails.write_text(mails.read_text(encoding="utf-8").splitlines()[0] + "\n", encoding="utf-8")
    verdict = judged()
    assert (verdict.lost, verdict.examples) == (1, ["mail_missing C536367"])


def _first(folder: Path, invoice: str = "536365") -> Path:
    return folder / shop_receipts.file_of(invoice)


@pytest.mark.parametrize(
    ("fault", "counts", "finding"),
    [
        (lambda at: at.unlink(), (1, 0, 0), "receipt_missing 536365"),
        (lambda at: at.write_bytes(at.read_bytes()[:-1]), (0, 0, 1), "receipt_wrong 536365"),
        (lambda at: at.write_bytes(at.read_bytes() + b"x"), (0, 0, 1), "receipt_wrong 536365"),
        (lambda at: at.write_bytes(b""), (0, 0, 1), "receipt_wrong 536365"),
        (lambda at: at.with_name("two.png").write_bytes(at.read_bytes()), (0, 1, 1), "receipt_doubled 536365"),
        (lambda at: at.with_name(".left.part").write_bytes(b"half"), (0, 0, 0), ""),
    ],
)
def test_a_receipt_that_is_not_there_once_and_whole_is_found(
    judged: Callable[..., Verdict],
    receipts: Path,
    fault: Callable[[Path], object],
    counts: tuple[int, int, int],
    finding: str,
) -> None:
    fault(_first(receipts))
    verdict = judged()
    assert (verdict.lost, verdict.doubled, verdict.wrong) == counts
    assert not finding or finding in verdict.examples


def test_a_receipt_of_another_sum_is_wrong_though_its_hash_fits(
    judged: Callable[..., Verdict], receipts: Path, connection: Connection
) -> None:
    image = shop_receipts.draw("536365", 2, Decimal("22.08"))
    _first(receipts).write_bytes(image)
    row = "UPDATE shop.receipts SET sha256 = %s WHERE invoice = '536365'"
    connection.execute(row, (hashlib.sha256(image).hexdigest(),))
    assert judged().examples == ["receipt_wrong 536365"]


def test_the_program_tells_by_its_exit_status(
    connection: Connection, empty_database_url: str, sales: Path, mails: Path, receipts: Path
) -> None:
    def run(file: Path) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "workers.drills.ledger", file, "--mails", mails, "--receipts", receipts, "--json"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "SMENA_DATABASE_URL": empty_database_url},
        )
        return done.returncode, done.stdout.strip() or done.stderr

    status, out = run(sales)
    assert (status, json.loads(out)["holds"]) == (0, True)
    connection.execute("DELETE FROM shop.charges")
    status, out = run(sales)
    assert (status, json.loads(out)["lost"]) == (1, 3)
    assert Decimal(json.loads(out)["amount"]) == 0
    status, out = run(sales.with_name("gone.csv"))
    assert status == 2
    assert "cannot be judged" in out


def test_the_ledger_imports_nothing_of_the_product_but_its_settings() -> None:
    code = "import sys, workers.drills.ledger; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    strangers = [
        name
        for name in loaded
        if name.split(".")[0] in ("smena", "workers", "actors", "examples", "sharding")
        and not name.startswith(("smena.settings", "workers.drills"))
        and name not in ("smena", "workers", "smena.errors", "smena.queue_name", "smena.version")
    ]
    assert strangers == []
