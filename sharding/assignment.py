"""Decide which member owns which partition: in balance, and with only the moves that a change needs.

Rendezvous hashing with bounded load: each pair of member and partition has a score, and a free partition goes to
the member with the highest score that has room. A member has room up to its quota: the mean, rounded down, or one
more where the mean is no whole number: all loads are the mean, rounded down or up.

Who owned a partition before is an input, for without it the bound would make others move too. From a balanced plan,
a member that joins takes its quota and nobody else's partition moves; one that leaves gives what it had to the others
and nothing else moves. From any plan the moves are the fewest that lead to balance.

All members must start from the same plan to come to the same one: `sharding/plans.py` sees to that.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from hashlib import blake2b
from itertools import compress
from typing import Final

_PRIME: Final = 1_073_741_789
"""The largest prime below 2**30: a product of two residues stays where CPython multiplies fastest."""


def assign(members: Collection[str], owners: Sequence[str | None]) -> list[str | None]:
    """Return the owner of each partition, given who owns it now; all None where there is no member.

    The result depends on nothing else: not on the order of ``members``, nor on the process.
    """
    live = sorted(set(members))
    if not live:
        return [None] * len(owners)
    plan = _Plan(live, owners)
    plan.shed()
    plan.fill()
    return [None if owner is None else live[owner] for owner in plan.owners]


def moves(before: Sequence[str | None], after: Sequence[str | None]) -> int:
    """Return how many partitions that had an owner get another."""
    return sum(old is not None and old != new for old, new in zip(before, after, strict=True))


class _Plan:
    """One computation; members are numbers here."""

    def __init__(self, live: Sequence[str], owners: Sequence[str | None]) -> None:
        place = {member: number for number, member in enumerate(live)}
        self.owners = [None if owner is None else place.get(owner) for owner in owners]
        self._marks = [_mark(f"member {member}") for member in live]
        self._owned: list[list[int]] = [[] for _ in live]
        for partition, owner in enumerate(self.owners):
            if owner is not None:
                self._owned[owner].append(partition)
        self._quotas = self._shares(len(owners))

    def _shares(self, partitions: int) -> list[int]:
        """Return each member's quota; the odd ones go to those who own most, which saves moves."""
        mean, odd = divmod(partitions, len(self._owned))
        by_load = sorted(range(len(self._owned)), key=lambda member: (-len(self._owned[member]), self._marks[member]))
        quotas = [mean] * len(self._owned)
        for member in by_load[:odd]:
            quotas[member] += 1
        return quotas

    def shed(self) -> None:
        """Take from each member what is above its quota: where its score is lowest."""
        for mark, owned, quota in zip(self._marks, self._owned, self._quotas, strict=True):
            if len(owned) > quota:
                owned.sort(key=lambda partition: (-_score(mark, partition), partition))
                for partition in owned[quota:]:
                    self.owners[partition] = None
                del owned[quota:]

    def fill(self) -> None:
        """Give each free partition to the member with the highest score that has room."""
        room = [quota - len(owned) for quota, owned in zip(self._quotas, self._owned, strict=True)]
        open_members = list(compress(range(len(room)), room))
        marks = [self._marks[member] for member in open_members]
        for partition, owner in enumerate(self.owners):
            if owner is None:
                point = _point(partition)
                scores = [mark * point % _PRIME for mark in marks]
                best = scores.index(max(scores))
                member = self.owners[partition] = open_members[best]
                room[member] -= 1
                if not room[member]:
                    del open_members[best], marks[best]


def _score(mark: int, partition: int) -> int:
    return mark * _point(partition) % _PRIME


def _point(partition: int) -> int:
    return _mark(f"partition {partition}")


def _mark(name: str) -> int:
    """Return a number from 1 to the prime less one, spread evenly."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest()) % (_PRIME - 1) + 1
