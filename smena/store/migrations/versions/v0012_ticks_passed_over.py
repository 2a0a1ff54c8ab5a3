"""Find the ticks that were passed over together without looking at all that are kept."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
part = "before"

SCHEMA = "smena"


def upgrade() -> None:
    """Add the index; who writes ticks meanwhile waits less than his own limit, for an upgrade can be run again."""
    op.execute("SET LOCAL lock_timeout = '2s'")
    passed_over = sa.text("until IS NOT NULL")
    op.create_index("ticks_until_idx", "ticks", ["schedule", "until"], schema=SCHEMA, postgresql_where=passed_over)
