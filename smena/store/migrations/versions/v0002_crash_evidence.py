"""Make the tables of crash evidence: lives, starts, strikes."""

from datetime import datetime

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
part = "before"

SCHEMA = "smena"


def upgrade() -> None:
    """Make them."""
    op.create_table(
        "lives",
        _key("life"),
        _text("worker", nullable=False),
        _text("host", nullable=False),
        _now("born_at"),
        sa.PrimaryKeyConstraint("life", name="lives_pkey"),
        schema=SCHEMA,
    )
    op.create_table(
        "starts",
        *_attempt(),
        _text("actor", nullable=False),
        _text("worker", nullable=False),
        _text("host", nullable=False),
        _now("started_at"),
        sa.PrimaryKeyConstraint("job_id", "attempt", "life", name="starts_pkey"),
        schema=SCHEMA,
    )
    op.create_index("starts_life_idx", "starts", ["life"], schema=SCHEMA)
    op.create_index("starts_started_at_idx", "starts", ["started_at"], schema=SCHEMA)
    _strikes()


def _strikes() -> None:
    op.create_table(
        "strikes",
        *_attempt(),
        _text("actor", nullable=False),
        _text("why", nullable=False),
        sa.Column("beside", sa.Integer, nullable=False),
        _text("how", nullable=False),
        sa.Column("peak_mib", sa.Integer),
        sa.Column("ran_s", sa.Float),
        _text("worker", nullable=False),
        _text("host", nullable=False),
        _text("lines"),
        _text("stack"),
        _now("struck_at"),
        sa.Column("cleared_at", sa.DateTime(timezone=True)),
        sa.CheckConstraint(
            "why IN ('suspected', 'fault', 'hard_limit', 'held_interpreter', 'lost')", name="strikes_why_check"
        ),
        sa.PrimaryKeyConstraint("job_id", "attempt", "life", name="strikes_pkey"),
        schema=SCHEMA,
    )
    op.create_index("strikes_struck_at_idx", "strikes", ["struck_at"], schema=SCHEMA)


def _attempt() -> tuple[sa.Column[str], sa.Column[int], sa.Column[str]]:
    return _key("job_id"), sa.Column("attempt", sa.Integer, nullable=False), _key("life")


def _key(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(collation="C"), nullable=False)


def _text(name: str, *, nullable: bool = True) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=nullable)


def _now(name: str) -> sa.Column[datetime]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=False, server_default=sa.text("now()"))
