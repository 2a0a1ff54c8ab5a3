"""Let a batch be worked by partition: where each key's items lie, and of which partition a slice is."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
part = "before"

SCHEMA = "smena"


def upgrade() -> None:
    """Make the table and add the columns."""
    op.create_table(
        "batch_keys",
        sa.Column("batch", sa.BigInteger, nullable=False),
        sa.Column("first", sa.BigInteger, nullable=False),
        sa.Column("last", sa.BigInteger, nullable=False),
        sa.Column("partition", sa.Integer, nullable=False),
        sa.Column("key", sa.Text(collation="C"), nullable=False),
        sa.PrimaryKeyConstraint("batch", "first", name="batch_keys_pkey"),
        schema=SCHEMA,
    )
    op.add_column("batch_slices", sa.Column("partition", sa.Integer), schema=SCHEMA)
    placed = sa.text("partition IS NOT NULL")
    columns = ["batch", "partition", "first"]
    op.create_index("batch_slices_partition_idx", "batch_slices", columns, schema=SCHEMA, postgresql_where=placed)
    mode = sa.Column("mode", sa.Text, nullable=False, server_default=sa.text("'claim'"))
    op.add_column("batches", mode, schema=SCHEMA)
    op.create_check_constraint("batches_mode_check", "batches", "mode IN ('claim', 'partition')", schema=SCHEMA)
    op.add_column("batches", sa.Column("partitions", sa.Integer), schema=SCHEMA)
    op.add_column("batches", sa.Column("on_dead", sa.Text), schema=SCHEMA)
    op.create_check_constraint("batches_on_dead_check", "batches", "on_dead IN ('skip', 'block')", schema=SCHEMA)
