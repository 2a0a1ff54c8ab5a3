"""Agree on who should own which partition: one row for each group, changed from one plan to the next.

The next plan depends on the plan before it (`assignment.py`), and members look at different moments. So the plan is
not computed by each for itself: whoever sees first that the live members are others than the plan's computes the
next one from *that* plan and writes it over that plan and no other (compare and set on ``generation``). Who comes
second has computed from a plan that is not there any more; it reads the new one.

The plan says who *should* own a partition. Who does own it, the lease says; two members that see different plans for
a moment can claim the same partition, and one gets it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import psycopg

from sharding.assignment import assign, moves
from sharding.leases import lease_name
from sharding.members import LIVE

_BEGIN: Final = b"""
INSERT INTO smena.partition_groups (name, partitions) VALUES (%(group)s, %(partitions)s) ON CONFLICT DO NOTHING
"""
_LEASES: Final = b"""
INSERT INTO smena.leases (name, term, expires_at)
SELECT name, 0, clock_timestamp() FROM unnest(%(names)s::text[]) AS name
ON CONFLICT DO NOTHING
"""
_LOOK: Final = f"""
SELECT partitions, generation, CASE WHEN generation IS DISTINCT FROM %(known)s THEN plan END, ARRAY({LIVE})
FROM smena.partition_groups WHERE name = %(group)s
""".encode()  # noqa: S608 - made of constants
_CHANGE: Final = b"""
UPDATE smena.partition_groups SET plan = %(plan)s, generation = generation + 1, planned_at = clock_timestamp()
WHERE name = %(group)s AND generation = %(generation)s AND partitions = %(partitions)s
"""
_GROUPS: Final = b"SELECT name, partitions, generation, plan FROM smena.partition_groups ORDER BY name"


@dataclass(frozen=True, slots=True)
class Plan:
    """Who should own each partition, and who was alive when that was decided. Generation 0 is no plan yet."""

    group: str
    generation: int
    members: frozenset[str]
    owners: Sequence[str | None]

    def of(self, member: str) -> set[int]:
        """Return the partitions that a member should own."""
        return {partition for partition, owner in enumerate(self.owners) if owner == member}


@dataclass(frozen=True, slots=True)
class View:
    """A group at one moment: its plan, and the members that live."""

    plan: Plan
    live: frozenset[str]

    @property
    def is_settled(self) -> bool:
        """Say whether the plan is for the members that live."""
        return self.plan.members == self.live


class _Stored(msgspec.Struct):
    """The plan's form in its column: each partition's owner as a number in ``members``, -1 for nobody."""

    members: list[str]
    owners: list[int]


def begin(connection: psycopg.Connection[Any], group: str, partitions: int) -> None:
    """Make the rows of a group and of its leases, where they are not there yet."""
    connection.execute(_BEGIN, {"group": group, "partitions": partitions})
    add_leases(connection, group, partitions)


def add_leases(connection: psycopg.Connection[Any], group: str, partitions: int) -> None:
    """Make the rows by which partitions are owned, where they are not there yet; they are never removed."""
    connection.execute(_LEASES, {"names": [lease_name(group, partition) for partition in range(partitions)]})


def look(connection: psycopg.Connection[Any], group: str, known: Plan | None = None) -> View | None:
    """Return the group as it is now; None where it has not begun. ``known`` saves reading the same plan again."""
    generation = None if known is None else known.generation
    row = connection.execute(_LOOK, {"group": group, "known": generation}).fetchone()
    if row is None:
        return None
    partitions, found, stored, live = row
    plan = known if known is not None and found == generation else _plan(group, partitions, found, stored)
    return View(plan, frozenset(live))


def settle(connection: psycopg.Connection[Any], view: View) -> int | None:
    """Write the plan for the members that live; return how many partitions it moves, None if another was faster."""
    owners = assign(view.live, view.plan.owners)
    values = {
        "group": view.plan.group,
        "generation": view.plan.generation,
        "partitions": len(owners),
        "plan": msgspec.json.encode(_stored(view.live, owners)).decode(),
    }
    changed = connection.execute(_CHANGE, values).rowcount
    return moves(view.plan.owners, owners) if changed else None


def groups(connection: psycopg.Connection[Any]) -> list[Plan]:
    """Return the plans of all groups."""
    return [_plan(name, partitions, *rest) for name, partitions, *rest in connection.execute(_GROUPS)]


def _stored(live: frozenset[str], owners: Sequence[str | None]) -> _Stored:
    members = sorted(live)
    place: dict[str | None, int] = {member: number for number, member in enumerate(members)}
    return _Stored(members, [place.get(owner, -1) for owner in owners])


def _plan(group: str, partitions: int, generation: int, stored: Any) -> Plan:
    if stored is None:
        return Plan(group, generation, frozenset(), [None] * partitions)
    plan = msgspec.convert(stored, _Stored)
    owners = [None if owner < 0 else plan.members[owner] for owner in plan.owners]
    return Plan(group, generation, frozenset(plan.members), owners)
