"""Know since when nobody has had a batch in hand, also where a janitor sends it new shard jobs."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
part = "before"

SCHEMA = "smena"


def upgrade() -> None:
    """Add the column."""
    held_at = sa.Column("held_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("now()"))
    op.add_column("batches", held_at, schema=SCHEMA)
