"""Change a group's number of partitions, which moves keys: only while nobody works it, and nothing is in it.

Whoever changes it makes sure of the second; the first is a condition of the statement. A member that declares another
number than the row has is no member and works nothing of the group (`sharding/members.py`), so old and new code never
work it both; one that waits for the new number joins by itself.
"""

from __future__ import annotations

from typing import Any, Final

import psycopg

from sharding import plans

_LIVING: Final = b"""
SELECT count(*) FROM smena.members
WHERE group_name = %(group)s AND expires_at > clock_timestamp() - make_interval(secs => %(silent_s)s)
"""
_OWNED: Final = b"""
SELECT count(*) FROM smena.leases
WHERE starts_with(name, %(lease)s) AND owner IS NOT NULL AND expires_at > clock_timestamp()
"""
_RESIZE: Final = b"""
UPDATE smena.partition_groups SET partitions = %(partitions)s, plan = NULL, generation = generation + 1
WHERE name = %(group)s
"""
_COUNT: Final = b"SELECT partitions FROM smena.partition_groups WHERE name = %(group)s FOR UPDATE"


def partitions_of(connection: psycopg.Connection[Any], group: str) -> int | None:
    """Return the group's number of partitions and lock it, so that no plan is made meanwhile; None if it has none."""
    row = connection.execute(_COUNT, {"group": group}).fetchone()
    return None if row is None else int(row[0])


def at_work(connection: psycopg.Connection[Any], group: str, silent_s: float) -> int:
    """Return how many members live, or partitions are owned, of a group.

    A member whose lease ended less than ``silent_s`` ago counts: the broker may not have taken its messages back.
    """
    named = {"group": group, "lease": f"partition:{group}:", "silent_s": silent_s}
    counts = [connection.execute(question, named).fetchone() for question in (_LIVING, _OWNED)]
    return sum(int(row[0]) for row in counts if row is not None)


def resize(connection: psycopg.Connection[Any], group: str, partitions: int) -> None:
    """Give the group another number of partitions, each with its lease, and no plan."""
    connection.execute(_RESIZE, {"group": group, "partitions": partitions})
    plans.add_leases(connection, group, partitions)
