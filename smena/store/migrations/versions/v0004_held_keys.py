"""Make the tables of held keys, and of the jobs that wait for them."""

from datetime import datetime

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
part = "before"

SCHEMA = "smena"


def upgrade() -> None:
    """Make them."""
    _holds()
    _parked()


def _holds() -> None:
    op.create_table(
        "key_holds",
        _key("queue"),
        _key("key"),
        sa.Column("partition", sa.Integer, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        _key("job_id"),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        _now("held_at"),
        sa.Column("due_at", sa.DateTime(timezone=True)),
        sa.Column("released", sa.Boolean, nullable=False, server_default=sa.text("false")),
        sa.Column("letter_routing_key", sa.Text),
        sa.Column("letter_properties", sa.JSON),
        sa.CheckConstraint("why IN ('retry', 'snooze', 'blocked')", name="key_holds_why_check"),
        sa.PrimaryKeyConstraint("queue", "key", name="key_holds_pkey"),
        schema=SCHEMA,
    )
    op.create_index("key_holds_partition_idx", "key_holds", ["queue", "partition"], schema=SCHEMA)
    op.create_index(
        "key_holds_released_idx", "key_holds", ["queue"], schema=SCHEMA, postgresql_where=sa.text("released")
    )


def _parked() -> None:
    op.create_table(
        "key_parked",
        sa.Column("seq", sa.BigInteger, sa.Identity(always=True), nullable=False),
        _key("queue"),
        sa.Column("partition", sa.Integer, nullable=False),
        _key("key"),
        _key("job_id"),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("snoozes", sa.Integer, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("properties", sa.JSON, nullable=False),
        _now("parked_at"),
        sa.PrimaryKeyConstraint("seq", name="key_parked_pkey"),
        sa.UniqueConstraint("queue", "job_id", name="key_parked_queue_job_id_key"),
        schema=SCHEMA,
    )
    op.create_index("key_parked_key_idx", "key_parked", ["queue", "key", "seq"], schema=SCHEMA)
    op.create_index("key_parked_partition_idx", "key_parked", ["queue", "partition"], schema=SCHEMA)


def _key(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(collation="C"), nullable=False)


def _now(name: str) -> sa.Column[datetime]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=False, server_default=sa.text("now()"))
