"""Make the shop's receipts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "receipts",
        sa.Column("invoice", sa.Text, primary_key=True),
        sa.Column("path", sa.Text, nullable=False, unique=True),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("job_id", sa.Text, nullable=False),
        schema="shop",
    )


def downgrade() -> None:
    """Drop the table; the images stay."""
    op.drop_table("receipts", schema="shop")
