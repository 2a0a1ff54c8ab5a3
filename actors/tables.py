"""Describe the shop's tables: schema `shop`, the shop's own, brought up by `actors/migrations`.

Amounts are `numeric` without bounds, so every product of quantity and price is kept exactly. Each effect
names the job that made it.
"""

from __future__ import annotations

import sqlalchemy as sa

SCHEMA = "shop"

metadata = sa.MetaData(schema=SCHEMA)

_NOW = sa.text("now()")

orders = sa.Table(
    "orders",
    metadata,
    sa.Column("invoice", sa.Text, primary_key=True),
    # Empty for a sale over the counter.
    sa.Column("customer", sa.Text),
    sa.Column("country", sa.Text, nullable=False),
    # The shop's wall time, without zone, as its file has it.
    sa.Column("placed_at", sa.DateTime, nullable=False),
    sa.Column("lines", sa.Integer, nullable=False),
    sa.Column("amount", sa.Numeric, nullable=False),
)
"""What was ordered: one row for each invoice, its lines added up."""

sales = sa.Table(
    "sales",
    metadata,
    sa.Column("line_number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("invoice", sa.Text, nullable=False),
    sa.Column("stock_code", sa.Text, nullable=False),
    sa.Column("quantity", sa.Integer, nullable=False),
    sa.Column("amount", sa.Numeric, nullable=False),
    sa.Column("job_id", sa.Text, nullable=False),
)
"""What was sold: one row for each line with a price, by its number in the file."""

stock = sa.Table(
    "stock",
    metadata,
    sa.Column("stock_code", sa.Text, primary_key=True),
    sa.Column("moves", sa.Integer, nullable=False),
    # Counted from zero before the first move.
    sa.Column("level", sa.BigInteger, nullable=False),
)
"""What is in stock: one row for each stock code, with the number of its moves so far."""

stock_moves = sa.Table(
    "stock_moves",
    metadata,
    sa.Column("line_number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("stock_code", sa.Text, nullable=False),
    # Its place among the moves of its code, from 1: the order in which they took effect.
    sa.Column("nth", sa.Integer, nullable=False),
    # What left; negative for what came back.
    sa.Column("quantity", sa.Integer, nullable=False),
    # The level after this move.
    sa.Column("level", sa.BigInteger, nullable=False),
    sa.Column("job_id", sa.Text, nullable=False),
    sa.UniqueConstraint("stock_code", "nth"),
)
"""How the stock moved: one row for each line of the file, by its number."""

charges = sa.Table(
    "charges",
    metadata,
    sa.Column("invoice", sa.Text, primary_key=True),
    sa.Column("lines", sa.Integer, nullable=False),
    sa.Column("amount", sa.Numeric, nullable=False),
    sa.Column("job_id", sa.Text, nullable=False),
    sa.Column("charged_at", sa.DateTime(timezone=True), nullable=False, server_default=_NOW),
)
"""What was charged: one row for each invoice; negative for a cancellation."""

receipts = sa.Table(
    "receipts",
    metadata,
    sa.Column("invoice", sa.Text, primary_key=True),
    # Below the folder of the receipts.
    sa.Column("path", sa.Text, nullable=False, unique=True),
    # Of the file's content, in hexadecimal.
    sa.Column("sha256", sa.Text, nullable=False),
    sa.Column("job_id", sa.Text, nullable=False),
)
"""What was drawn: one image for each charge."""

report_groups = sa.Table(
    "report_groups",
    metadata,
    sa.Column("report", sa.Text, primary_key=True),
    sa.Column("customers", sa.Text, primary_key=True),
    sa.Column("invoices", sa.Integer, nullable=False),
    sa.Column("amount", sa.Numeric, nullable=False),
    # A bar for each month, as PNG, and its hash in hexadecimal.
    sa.Column("chart", sa.LargeBinary, nullable=False),
    sa.Column("sha256", sa.Text, nullable=False),
    sa.Column("job_id", sa.Text, nullable=False),
)
"""What a report says of one group of customers."""

reports = sa.Table(
    "reports",
    metadata,
    sa.Column("report", sa.Text, primary_key=True),
    sa.Column("groups", sa.Integer, nullable=False),
    sa.Column("failed", sa.Integer, nullable=False),
    sa.Column("invoices", sa.BigInteger, nullable=False),
    sa.Column("amount", sa.Numeric, nullable=False),
    sa.Column("job_id", sa.Text, nullable=False),
)
"""What was reported: one row for each report, its groups added up."""
