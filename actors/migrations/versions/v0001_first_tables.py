"""Make the shop's first tables: orders, sales, charges."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "orders",
        sa.Column("invoice", sa.Text, primary_key=True),
        sa.Column("customer", sa.Text),
        sa.Column("country", sa.Text, nullable=False),
        sa.Column("placed_at", sa.DateTime, nullable=False),
        sa.Column("lines", sa.Integer, nullable=False),
        sa.Column("amount", sa.Numeric, nullable=False),
        schema="shop",
    )
    op.create_table(
        "sales",
        sa.Column("line_number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("invoice", sa.Text, nullable=False),
        sa.Column("stock_code", sa.Text, nullable=False),
        sa.Column("quantity", sa.Integer, nullable=False),
        sa.Column("amount", sa.Numeric, nullable=False),
        sa.Column("job_id", sa.Text, nullable=False),
        schema="shop",
    )
    op.create_table(
        "charges",
        sa.Column("invoice", sa.Text, primary_key=True),
        sa.Column("lines", sa.Integer, nullable=False),
        sa.Column("amount", sa.Numeric, nullable=False),
        sa.Column("job_id", sa.Text, nullable=False),
        sa.Column("charged_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        schema="shop",
    )


def downgrade() -> None:
    """Drop the tables with all they hold."""
    for table in ("charges", "sales", "orders"):
        op.drop_table(table, schema="shop")
