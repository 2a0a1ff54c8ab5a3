"""Let a strike say that its job had just ended in the process that died."""

from alembic import op

revision = "0011"
down_revision = "0010"
part = "before"

SCHEMA = "smena"


def upgrade() -> None:
    """Widen the check."""
    whys = "why IN ('suspected', 'ended', 'fault', 'hard_limit', 'held_interpreter', 'lost')"
    op.drop_constraint("strikes_why_check", "strikes", schema=SCHEMA, type_="check")
    op.create_check_constraint("strikes_why_check", "strikes", whys, schema=SCHEMA)
