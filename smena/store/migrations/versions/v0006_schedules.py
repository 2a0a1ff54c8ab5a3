"""Make the tables of periodic work: schedules, ticks."""

from datetime import datetime

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
part = "before"

SCHEMA = "smena"


def upgrade() -> None:
    """Make them."""
    op.create_table(
        "schedules",
        _key("name"),
        *(_text(name) for name in ("source", "spec", "actor", "queue")),
        sa.Column("args", sa.JSON, nullable=False),
        sa.Column("kwargs", sa.JSON, nullable=False),
        _text("misfire"),
        sa.Column("misfire_cap", sa.Integer, nullable=False),
        _text("overlap"),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        _time("next_at"),
        _time("paused_at"),
        _now("declared_at"),
        _time("removed_at"),
        _now("created_at"),
        sa.CheckConstraint("source IN ('book', 'added')", name="schedules_source_check"),
        sa.CheckConstraint("misfire IN ('skip', 'one', 'all')", name="schedules_misfire_check"),
        sa.CheckConstraint("overlap IN ('allow', 'skip', 'queue')", name="schedules_overlap_check"),
        sa.PrimaryKeyConstraint("name", name="schedules_pkey"),
        schema=SCHEMA,
    )
    active = sa.text("paused_at IS NULL AND removed_at IS NULL")
    op.create_index("schedules_next_at_idx", "schedules", ["next_at"], schema=SCHEMA, postgresql_where=active)
    _ticks()


def _ticks() -> None:
    op.create_table(
        "ticks",
        _key("schedule"),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        _text("state"),
        _text("why"),
        _time("until"),
        sa.Column("count", sa.Integer, nullable=False, server_default=sa.text("1")),
        sa.Column("job_id", sa.Text(collation="C")),
        _now("decided_at"),
        _time("fired_at"),
        _time("ended_at"),
        sa.Column("ending", sa.Text),
        sa.CheckConstraint("state IN ('fired', 'waiting', 'skipped')", name="ticks_state_check"),
        sa.CheckConstraint("ending IN ('done', 'dead', 'forgotten')", name="ticks_ending_check"),
        sa.PrimaryKeyConstraint("schedule", "at", name="ticks_pkey"),
        schema=SCHEMA,
    )
    is_open, is_waiting = sa.text("state = 'fired' AND ended_at IS NULL"), sa.text("state = 'waiting'")
    unended = sa.text("ended_at IS NULL")
    op.create_index("ticks_job_id_idx", "ticks", ["job_id"], unique=True, schema=SCHEMA, postgresql_where=unended)
    op.create_index("ticks_open_idx", "ticks", ["schedule"], schema=SCHEMA, postgresql_where=is_open)
    op.create_index("ticks_waiting_idx", "ticks", ["schedule"], schema=SCHEMA, postgresql_where=is_waiting)
    op.create_index("ticks_decided_at_idx", "ticks", ["decided_at"], schema=SCHEMA)


def _key(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(collation="C"), nullable=False)


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False)


def _time(name: str) -> sa.Column[datetime]:
    return sa.Column(name, sa.DateTime(timezone=True))


def _now(name: str) -> sa.Column[datetime]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=False, server_default=sa.text("now()"))
