"""Delete outbox rows that were sent long ago."""

from __future__ import annotations

import sqlalchemy as sa

from smena.records.pruning import delete_some, older_than
from smena.store.tables import outbox


def prune(connection: sa.Connection, keep_s: float, limit: int = 1000) -> int:
    """Delete rows sent more than ``keep_s`` seconds ago, at most ``limit``; return how many."""
    sent = sa.and_(outbox.c.state == "sent", older_than(outbox.c.sent_at, keep_s))
    return delete_some(connection, outbox, sent, limit)
