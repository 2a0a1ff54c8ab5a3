"""Find partitions that nobody works, though it may look as if all were well.

They are without an owner, or beyond the last, or the group has no member (its workers may run, and declare another
number of partitions).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import psycopg

from smena.keyspace import MOST_PARTITIONS

_UNOWNED: Final = b"""
SELECT * FROM (
    SELECT g.name, g.partitions,
           g.partitions - (SELECT count(*) FROM smena.leases AS l
                           WHERE starts_with(l.name, 'partition:' || g.name || ':')
                           AND l.owner IS NOT NULL AND l.expires_at > clock_timestamp() - g.silent) AS unowned,
           (SELECT count(*) FROM smena.members AS m
            WHERE m.group_name = g.name AND NOT m.leaving AND m.expires_at > clock_timestamp()) AS members
    FROM (SELECT *, make_interval(secs => %(silent_s)s) AS silent FROM smena.partition_groups) AS g
    WHERE g.plan IS NOT NULL AND g.planned_at < clock_timestamp() - g.silent
) AS each WHERE unowned > 0 AND members > 0 ORDER BY name
"""
_DESERTED: Final = b"""
SELECT g.name, g.partitions FROM smena.partition_groups AS g
WHERE g.planned_at < clock_timestamp() - make_interval(secs => %(silent_s)s)
AND NOT EXISTS (SELECT FROM smena.members AS m WHERE m.group_name = g.name
                AND m.expires_at > clock_timestamp() - make_interval(secs => %(silent_s)s))
ORDER BY g.name
"""
"""The last member plans without itself as it leaves, so that ``planned_at`` is also when a group was deserted."""

_SIZES: Final = b"""
SELECT g.name, g.partitions, greatest(g.partitions, (SELECT count(*) FROM smena.leases AS l
                                                     WHERE starts_with(l.name, 'partition:' || g.name || ':')))
FROM smena.partition_groups AS g ORDER BY g.name
"""
"""Leases are made for all partitions of a group, and stay where it comes to have fewer."""

_USUAL: Final = 32
"""What an actor that does not say has."""


class Unowned(NamedTuple):
    """A group with members that has partitions which nobody owns, and has had them for long."""

    group: str
    partitions: int
    unowned: int
    members: int


class Size(NamedTuple):
    """How many ``partitions`` a group has, and how many it had ``once`` where that was more."""

    group: str
    partitions: int
    once: int

    @property
    def looked_at(self) -> int:
        """Return how far to look for partitions it has not, of senders that declare more: each look costs a channel."""
        return min(MOST_PARTITIONS, max(_USUAL, 2 * self.once))


class Deserted(NamedTuple):
    """A group without a member; whether that is a fault, its queues say."""

    group: str
    partitions: int


def unowned(connection: psycopg.Connection[Any], silent_s: float) -> list[Unowned]:
    """Return the groups with members in which a partition has no owner, at least ``silent_s`` after the last plan."""
    return [Unowned(*row) for row in connection.execute(_UNOWNED, {"silent_s": silent_s})]


def deserted(connection: psycopg.Connection[Any], silent_s: float) -> list[Deserted]:
    """Return the groups in which no member has lived for ``silent_s``."""
    return [Deserted(*row) for row in connection.execute(_DESERTED, {"silent_s": silent_s})]


def sizes(connection: psycopg.Connection[Any]) -> dict[str, Size]:
    """Return how many partitions each group has and had."""
    return {name: Size(name, *counts) for name, *counts in connection.execute(_SIZES)}
