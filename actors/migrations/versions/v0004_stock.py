"""Make the tables of the running stock."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "stock",
        sa.Column("stock_code", sa.Text, primary_key=True),
        sa.Column("moves", sa.Integer, nullable=False),
        sa.Column("level", sa.BigInteger, nullable=False),
        schema="shop",
    )
    op.create_table(
        "stock_moves",
        sa.Column("line_number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("stock_code", sa.Text, nullable=False),
        sa.Column("nth", sa.Integer, nullable=False),
        sa.Column("quantity", sa.Integer, nullable=False),
        sa.Column("level", sa.BigInteger, nullable=False),
        sa.Column("job_id", sa.Text, nullable=False),
        sa.UniqueConstraint("stock_code", "nth"),
        schema="shop",
    )


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table("stock_moves", schema="shop")
    op.drop_table("stock", schema="shop")
