"""See who owns which partition: plans, leases and members of all groups, joined for an operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from sharding import leases, members, plans
from sharding.leases import Lease
from sharding.members import Member
from sharding.plans import Plan


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
