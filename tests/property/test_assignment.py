"""Partitions are owned in balance, and a change moves only what it must, for any fleet."""

import math
import time
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sharding.assignment import assign, moves

names = st.text(st.characters(codec="ascii", categories=["Ll", "Nd"]), min_size=1, max_size=6)
fleets = st.sets(names, min_size=1, max_size=30)
Plan = list[str | None]


@st.composite
def changes(draw: st.DrawFn) -> tuple[set[str], Plan]:
    """Give live members, and a plan of any shape: of them, of others that are gone, with holes."""
    known = draw(st.lists(names, min_size=1, max_size=12, unique=True))
    members = set(draw(st.lists(st.sampled_from(known), min_size=1, unique=True))) | draw(st.sets(names, max_size=20))
    plan = st.lists(st.one_of(st.none(), st.sampled_from(known)), min_size=1, max_size=100)
    return members, draw(plan)


def loads(plan: Plan, members: set[str]) -> list[int]:
    counted = Counter(plan)
    assert counted.keys() <= members
    return [counted[member] for member in members]


def fewest_moves(before: Plan, members: set[str]) -> int:
    """Count what must move to balance: what is above the quotas, if the odd ones go where they save most."""
    mean, odd = divmod(len(before), len(members))
    counted = Counter(owner for owner in before if owner in members)
    above = sum(max(0, counted[member] - mean) for member in members)
    saved = min(odd, sum(counted[member] > mean for member in members))
    return above - saved


@given(changes())
@example(({"a", "b", "c"}, [None] * 30))
def test_every_partition_is_owned_and_nobody_is_off_the_mean_by_one(change: tuple[set[str], Plan]) -> None:
    members, before = change
    after = assign(members, before)
    mean = len(before) / len(members)
    owned = loads(after, members)
    assert sum(owned) == len(before)
    assert math.floor(mean) <= min(owned)
    assert max(owned) <= math.ceil(mean)


@given(changes())
@example(({"a", "b"}, ["a", "b", "b"]))
def test_no_more_moves_than_balance_needs(change: tuple[set[str], Plan]) -> None:
    members, before = change
    after = assign(members, before)
    orphans = sum(owner is not None and owner not in members for owner in before)
    assert moves(before, after) == fewest_moves(before, members) + orphans


@given(changes())
def test_a_plan_that_is_in_balance_stays(change: tuple[set[str], Plan]) -> None:
    members, before = change
    after = assign(members, before)
    assert assign(members, after) == after


@given(fleets, names, st.integers(min_value=1, max_value=300))
def test_who_joins_takes_its_share_and_nothing_else_moves(members: set[str], new: str, partitions: int) -> None:
    before = assign(members - {new}, [None] * partitions)
    after = assign(members | {new}, before)
    moved = [owner for old, owner in zip(before, after, strict=True) if old != owner]
    assert set(moved) <= {new}
    assert len(moved) <= math.ceil(partitions / len(members | {new})) or before == [None] * partitions


@given(fleets, st.integers(min_value=1, max_value=300))
def test_who_leaves_gives_what_it_had_and_nothing_else_moves(members: set[str], partitions: int) -> None:
    gone = min(members)
    before = assign(members, [None] * partitions)
    after = assign(members - {gone}, before)
    moved = {number for number in range(partitions) if before[number] != after[number]}
    assert moved == {number for number, owner in enumerate(before) if owner == gone}


@given(changes())
def test_all_who_start_from_one_plan_come_to_one_plan(change: tuple[set[str], Plan]) -> None:
    members, before = change
    assert assign(sorted(members), before) == assign([*sorted(members, reverse=True), *members], before)


@given(changes())
def test_without_members_nobody_owns_anything(change: tuple[set[str], Plan]) -> None:
    _, before = change
    assert assign([], before) == [None] * len(before)


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(min_value=1, max_value=128))
def test_balance_lasts_through_any_joins_and_leaves(joining: list[bool], partitions: int) -> None:
    members, plan = ["m0"], assign(["m0"], [None] * partitions)
    for number, joins in enumerate(joining, start=1):
        members = [*members, f"m{number}"] if joins else members[1:] or [f"m{number}"]
        plan = assign(members, plan)
        owned = loads(plan, set(members))
        assert max(owned) - min(owned) <= 1


@pytest.mark.parametrize(("partitions", "members", "most_s"), [(256, 50, 0.05), (4096, 1000, 3.0)])
def test_it_takes_no_longer_than_it_may(partitions: int, members: int, most_s: float) -> None:
    fleet = [f"member-{number}" for number in range(members)]
    plan: Plan = []
    took_s = []
    for _ in range(3):
        began_s = time.process_time()
        plan = assign(fleet, [None] * partitions)
        took_s.append(time.process_time() - began_s)
    assert min(took_s) < most_s
    owned = loads(plan, set(fleet))
    assert max(owned) - min(owned) <= 1
    assert moves(plan, assign([*fleet, "new"], plan)) == partitions // (members + 1)
