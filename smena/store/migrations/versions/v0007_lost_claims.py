"""Count the owners that did not come back from a slice, and know when a batch's shard jobs were sent."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
part = "before"

SCHEMA = "smena"


def upgrade() -> None:
    """Add the columns."""
    losses = sa.Column("losses", sa.Integer, nullable=False, server_default=sa.text("0"))
    op.add_column("batch_slices", losses, schema=SCHEMA)
    sent_at = sa.Column("sent_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("now()"))
    op.add_column("batches", sent_at, schema=SCHEMA)
