"""Know which processes work a group: a row each, which its heartbeat keeps alive by the database's clock.

A member is a random id for each boot, never a name: a process that died and came back is another member (P32). A
member that goes says so first (`leave`), and no heartbeat that is still under way brings it back. A process that
declares another number of partitions than the group has is no member: it would be given a share that it cannot work.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import psycopg
import sqlalchemy as sa
from psycopg.rows import class_row

from smena.records.pruning import delete_some, older_than
from smena.store.tables import members

_BEAT: Final = b"""
INSERT INTO smena.members AS m (group_name, member, worker, leaving, expires_at)
SELECT %(group)s, %(member)s, %(worker)s, false, clock_timestamp() + make_interval(secs => %(lease_s)s)
WHERE NOT EXISTS (SELECT FROM smena.partition_groups WHERE name = %(group)s AND partitions <> %(partitions)s)
ON CONFLICT (group_name, member) DO UPDATE SET expires_at = excluded.expires_at
"""
_LEAVE: Final = b"UPDATE smena.members SET leaving = true WHERE group_name = %(group)s AND member = %(member)s"
_FORGET: Final = b"DELETE FROM smena.members WHERE group_name = %(group)s AND member = %(member)s"
_BURY: Final = b"""
DELETE FROM smena.members WHERE group_name = %(group)s
AND expires_at < clock_timestamp() - make_interval(secs => %(keep_s)s)
"""
_ALL: Final = b"""
SELECT group_name AS group, member, worker, joined_at, expires_at, leaving, expires_at > clock_timestamp() AS alive
FROM smena.members ORDER BY group_name, joined_at, member
"""
LIVE: Final = """
SELECT member FROM smena.members
WHERE group_name = %(group)s AND NOT leaving AND expires_at > clock_timestamp() ORDER BY member
"""
"""The members of a group that take a share; part of the question in `plans.py`, so that both are of one moment."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member as an operator sees it; ``worker`` is the process's name."""

    group: str
    member: str
    worker: str
    joined_at: datetime
    expires_at: datetime
    leaving: bool
    alive: bool


def beat(
    connection: psycopg.Connection[Any], group: str, partitions: int, member: str, worker: str, lease_s: float
) -> None:
    """Live on for ``lease_s``; the first beat joins. One that is leaving stays so.

    Does nothing where the group has another number than ``partitions``; a group that has not begun has none yet.
    """
    named = {"group": group, "partitions": partitions, "member": member, "worker": worker, "lease_s": lease_s}
    connection.execute(_BEAT, named)


def leave(connection: psycopg.Connection[Any], group: str, member: str) -> None:
    """Take no share any more; what is still held is handed over."""
    connection.execute(_LEAVE, {"group": group, "member": member})


def forget(connection: psycopg.Connection[Any], group: str, member: str) -> None:
    """Remove a member that holds nothing any more."""
    connection.execute(_FORGET, {"group": group, "member": member})


def bury(connection: psycopg.Connection[Any], group: str, keep_s: float) -> int:
    """Remove members that have been silent for ``keep_s`` beyond their time; return how many."""
    return connection.execute(_BURY, {"group": group, "keep_s": keep_s}).rowcount


def prune(connection: sa.Connection, keep_s: float, limit: int) -> int:
    """Remove members of any group that have been silent for ``keep_s`` beyond their time, at most ``limit``.

    Whoever makes a group's next plan buries its dead; this is for groups that nobody works any more.
    """
    return delete_some(connection, members, older_than(members.c.expires_at, keep_s), limit)


def everybody(connection: psycopg.Connection[Any]) -> list[Member]:
    """Return all members of all groups, the longest there first."""
    with connection.cursor(row_factory=class_row(Member)) as cursor:
        return cursor.execute(_ALL).fetchall()
