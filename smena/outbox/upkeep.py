"""Delete outbox rows that were sent long ago."""

from __future__ import annotations

import sqlalchemy as sa

from smena.records.once_keys import delete_some
from smena.store.tables import outbox


def prune(connection: sa.Connection, keep_s: float, limit: int = 1000) -> int:
    """Delete rows sent more than ``keep_s`` seconds ago, at most ``limit``; return how many."""
    past = sa.func.now() - sa.func.make_interval(0, 0, 0, 0, 0, 0, keep_s)
    return delete_some(connection, outbox, sa.and_(outbox.c.state == "sent", outbox.c.sent_at < past), limit)
