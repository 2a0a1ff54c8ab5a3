"""Make the tables of the nightly report."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "report_groups",
        sa.Column("report", sa.Text, primary_key=True),
        sa.Column("customers", sa.Text, primary_key=True),
        sa.Column("invoices", sa.Integer, nullable=False),
        sa.Column("amount", sa.Numeric, nullable=False),
        sa.Column("chart", sa.LargeBinary, nullable=False),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("job_id", sa.Text, nullable=False),
        schema="shop",
    )
    op.create_table(
        "reports",
        sa.Column("report", sa.Text, primary_key=True),
        sa.Column("groups", sa.Integer, nullable=False),
        sa.Column("failed", sa.Integer, nullable=False),
        sa.Column("invoices", sa.BigInteger, nullable=False),
        sa.Column("amount", sa.Numeric, nullable=False),
        sa.Column("job_id", sa.Text, nullable=False),
        schema="shop",
    )


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table("reports", schema="shop")
    op.drop_table("report_groups", schema="shop")
