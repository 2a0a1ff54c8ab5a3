"""Make the tables of batches: what was opened, its items, and what is left of them."""

from datetime import datetime

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
part = "before"

SCHEMA = "smena"


def upgrade() -> None:
    """Make them."""
    _batches()
    op.create_table(
        "batch_items",
        *_item(),
        sa.Column("item", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("batch", "number", name="batch_items_pkey"),
        schema=SCHEMA,
    )
    op.create_table(
        "batch_slices",
        sa.Column("id", sa.BigInteger, sa.Identity(always=True), nullable=False),
        sa.Column("term", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("batch", sa.BigInteger, nullable=False),
        sa.Column("first", sa.BigInteger, nullable=False),
        sa.Column("last", sa.BigInteger, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False, server_default=sa.text("1")),
        _text("owner"),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("'epoch'")),
        sa.PrimaryKeyConstraint("id", "term", name="batch_slices_pkey"),
        schema=SCHEMA,
        postgresql_with={"fillfactor": "50"},
    )
    op.create_index("batch_slices_batch_idx", "batch_slices", ["batch", "first"], schema=SCHEMA)
    op.create_table(
        "batch_marks", *_item(), sa.PrimaryKeyConstraint("batch", "number", name="batch_marks_pkey"), schema=SCHEMA
    )
    op.create_table(
        "batch_dead",
        *_item(),
        sa.Column("attempts", sa.Integer, nullable=False),
        _text("reason", nullable=False),
        _text("error_class"),
        _text("error_text"),
        _text("traceback"),
        _text("fingerprint"),
        _now("died_at"),
        sa.PrimaryKeyConstraint("batch", "number", name="batch_dead_pkey"),
        schema=SCHEMA,
    )


def _batches() -> None:
    op.create_table(
        "batches",
        sa.Column("id", sa.BigInteger, sa.Identity(always=True), nullable=False),
        sa.Column("key", sa.Text(collation="C")),
        _text("actor", nullable=False),
        _text("queue", nullable=False),
        _text("per", nullable=False),
        sa.Column("kwargs", sa.JSON, nullable=False),
        sa.Column("shards", sa.Integer, nullable=False),
        sa.Column("largest_slice", sa.Integer),
        sa.Column("total", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False, server_default=sa.text("'running'")),
        sa.Column("epoch", sa.Integer, nullable=False, server_default=sa.text("1")),
        sa.Column("done", sa.BigInteger),
        sa.Column("dead", sa.BigInteger),
        _text("then_actor"),
        _text("then_queue"),
        _text("request_id"),
        _text("traceparent"),
        _now("opened_at"),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.CheckConstraint("per IN ('item', 'slice')", name="batches_per_check"),
        sa.CheckConstraint("state IN ('running', 'paused', 'cancelled', 'complete')", name="batches_state_check"),
        sa.PrimaryKeyConstraint("id", name="batches_pkey"),
        sa.UniqueConstraint("key", name="batches_key_key"),
        schema=SCHEMA,
    )
    ended = sa.text("ended_at IS NOT NULL")
    op.create_index("batches_ended_at_idx", "batches", ["ended_at"], schema=SCHEMA, postgresql_where=ended)


def _item() -> tuple[sa.Column[int], sa.Column[int]]:
    return sa.Column("batch", sa.BigInteger, nullable=False), sa.Column("number", sa.BigInteger, nullable=False)


def _text(name: str, *, nullable: bool = True) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=nullable)


def _now(name: str) -> sa.Column[datetime]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=False, server_default=sa.text("now()"))
