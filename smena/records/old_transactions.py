"""Find what holds the database's horizon back: nothing that died after it can be vacuumed away.

Whoever keeps a snapshot (a report, a forgotten session, a dump, a standby with feedback, a replication slot, a prepared
transaction) makes every table that is written keep its dead rows; queues suffer first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import sqlalchemy as sa

_HOLDERS: Final = sa.text("""
SELECT 'session' AS kind, CAST(pid AS text) AS name, CAST(extract(epoch FROM clock_timestamp() - xact_start) AS float8)
           AS age_s, coalesce(state, '') AS state, coalesce(application_name, '') AS application,
       coalesce(usename, '') AS who
FROM pg_stat_activity
WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid() AND backend_type <> 'autovacuum worker'
  AND (datname = current_database() OR backend_xmin IS NOT NULL)
UNION ALL
SELECT 'prepared', gid, CAST(extract(epoch FROM clock_timestamp() - prepared) AS float8), '', '', owner
FROM pg_prepared_xacts WHERE database = current_database()
ORDER BY age_s DESC LIMIT :limit
""")
_SLOTS: Final = sa.text("""
SELECT 'slot', slot_name, NULL, CASE WHEN active THEN 'active' ELSE 'inactive' END, coalesce(plugin, ''), ''
FROM pg_replication_slots WHERE (xmin IS NOT NULL OR catalog_xmin IS NOT NULL) AND NOT active
""")


class Holder(NamedTuple):
    """What keeps dead rows from being removed, and for how long already; a slot's age nobody knows.

    ``name`` is a session's process id, a prepared transaction's or a slot's name.
    """

    kind: str
    name: str
    age_s: float | None
    state: str
    application: str
    who: str


def holders(connection: sa.Connection, limit: int = 5) -> Sequence[Holder]:
    """Return open transactions, the oldest first, then replication slots that nobody reads."""
    open_ones = [Holder._make(row) for row in connection.execute(_HOLDERS, {"limit": limit})]
    return open_ones + [Holder._make(row) for row in connection.execute(_SLOTS)]
