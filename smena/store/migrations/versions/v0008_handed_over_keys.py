"""Let a key wait because its partition was handed over with jobs of it in hand."""

from alembic import op

revision = "0008"
down_revision = "0007"
part = "before"

SCHEMA = "smena"


def upgrade() -> None:
    """Widen the check."""
    op.drop_constraint("key_holds_why_check", "key_holds", schema=SCHEMA, type_="check")
    reasons = "why IN ('retry', 'snooze', 'blocked', 'handed_over')"
    op.create_check_constraint("key_holds_why_check", "key_holds", reasons, schema=SCHEMA)
