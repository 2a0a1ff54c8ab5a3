"""See who owns which partition: plans, leases and members of all groups, joined for an operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import psycopg

from sharding import leases, members, plans
from sharding.leases import Lease
from sharding.members import Member
from sharding.plans import Plan

_FORSAKEN: Final = b"""
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
_OUTGROWN: Final = b"""
SELECT g.name, g.partitions,
       (SELECT count(*) FROM smena.leases AS l WHERE starts_with(l.name, 'partition:' || g.name || ':')) AS once
FROM smena.partition_groups AS g ORDER BY g.name
"""


class Forsaken(NamedTuple):
    """A group with members that has partitions which nobody owns, and has had them for long."""

    group: str
    partitions: int
    unowned: int
    members: int


class Outgrown(NamedTuple):
    """A group that has had more ``partitions`` once; nobody works what is sent to those it has no more."""

    group: str
    partitions: int
    once: int


@dataclass(frozen=True, slots=True)
class Standing:
    """One partition: who owns it, under which term, and who should."""

    partition: int
    term: int
    owner: str | None
    """Empty while nobody owns it: released and not taken yet, or the owner's lease ran out."""
    worker: str | None
    """The name of the owner's process."""
    planned: str | None


@dataclass(frozen=True, slots=True)
class GroupStanding:
    """One group and its partitions, the first one first."""

    group: str
    generation: int
    members: Sequence[Member]
    partitions: Sequence[Standing]

    @property
    def unowned(self) -> int:
        """Return how many partitions nobody owns."""
        return sum(standing.owner is None for standing in self.partitions)

    @property
    def moving(self) -> int:
        """Return how many partitions are owned by another than they should be."""
        return sum(standing.owner not in {None, standing.planned} for standing in self.partitions)


def of_all(connection: psycopg.Connection[Any]) -> list[GroupStanding]:
    """Return all groups by their names."""
    everybody = members.everybody(connection)
    return [
        _joined(plan, [one for one in everybody if one.group == plan.group], leases.held(connection, plan.group))
        for plan in plans.groups(connection)
    ]


def forsaken(connection: psycopg.Connection[Any], silent_s: float) -> list[Forsaken]:
    """Return the groups with members in which a partition has no owner, at least ``silent_s`` after the last plan."""
    return [Forsaken(*row) for row in connection.execute(_FORSAKEN, {"silent_s": silent_s})]


def outgrown(connection: psycopg.Connection[Any]) -> list[Outgrown]:
    """Return the groups that had more partitions once than they have now."""
    return [Outgrown(*row) for row in connection.execute(_OUTGROWN) if row[2] > row[1]]


def _joined(plan: Plan, those: Sequence[Member], held: Sequence[Lease]) -> GroupStanding:
    workers = {one.member: one.worker for one in those}
    by_number = {leases.partition_in(lease.name): lease for lease in held}
    standings = []
    for partition, planned in enumerate(plan.owners):
        lease = by_number.get(partition)
        owner = lease.owner if lease is not None and lease.lasts else None
        term = 0 if lease is None else lease.term
        standings.append(Standing(partition, term, owner, None if owner is None else workers.get(owner), planned))
    return GroupStanding(plan.group, plan.generation, those, standings)
