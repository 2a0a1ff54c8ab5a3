"""Make the tables of partitions: the groups with their plans, and their members."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
part = "before"

SCHEMA = "smena"


def upgrade() -> None:
    """Make them."""
    op.create_table(
        "partition_groups",
        sa.Column("name", sa.Text(collation="C"), nullable=False),
        sa.Column("partitions", sa.Integer, nullable=False),
        sa.Column("generation", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("plan", sa.JSON),
        sa.Column("planned_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("now()")),
        sa.PrimaryKeyConstraint("name", name="partition_groups_pkey"),
        schema=SCHEMA,
    )
    op.create_table(
        "members",
        sa.Column("group_name", sa.Text(collation="C"), nullable=False),
        sa.Column("member", sa.Text(collation="C"), nullable=False),
        sa.Column("worker", sa.Text, nullable=False),
        sa.Column("joined_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("now()")),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("leaving", sa.Boolean, nullable=False, server_default=sa.text("false")),
        sa.PrimaryKeyConstraint("group_name", "member", name="members_pkey"),
        schema=SCHEMA,
    )
