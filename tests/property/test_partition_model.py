"""The protocol of partitions, searched whole: one writer under one term, one owner at a time, and always one again."""

import inspect
from types import ModuleType

import pytest

from sharding import leases
from sharding.tenures import Tenures
from smena.store import terms
from tests.property.partition_model import BY_MEMBERS, MEMBERS, Cells, Pairs, Rules, Wrong

NOT_STEPS = {"held", "lease_name", "partition_in", "term_of", "renewable", "next_lapse_s", "unreleased", "lapse"}
"""What asks only; `lapse` is time's step, which `Tenures` but notices."""


def tell(capsys: pytest.CaptureFixture[str], what: str) -> None:
    with capsys.disabled():
        print(f"\n  {what}")  # noqa: T201 - how much was searched is part of the result


def test_two_partitions_and_three_members_go_wrong_in_no_order_of_steps(capsys: pytest.CaptureFixture[str]) -> None:
    cells = Cells(Rules(fine=False), alike=False)
    pairs = Pairs(cells)
    ways = [cells.ways_home(frozen) for frozen in range(1 << MEMBERS)]
    all_frozen = (1 << MEMBERS) - 1
    longest = max(ways[frozen][one] + ways[frozen][other] for frozen, one, other in pairs.seen if frozen != all_frozen)
    tell(capsys, f"two partitions: {len(pairs.seen):,} states, {pairs.steps:,} steps; all owned after {longest:.0f}")
    assert len(pairs.seen) > 10_000
    assert longest < float("inf")


def test_slow_answers_and_slow_releases_make_nothing_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    cells = Cells(Rules(), alike=True)
    longest = max(cells.ways_home(frozen=0))
    count = sum(map(len, cells.steps))
    tell(capsys, f"slow answers: {len(cells.cells):,} states, {count:,} steps; owned after {longest:.0f}")
    assert len(cells.cells) > 5_000
    assert longest < float("inf")


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        (Rules(terms_grow=False), "two members hold one partition under one term"),
        (Rules(counts_from_the_question=False), "a member holds a partition whose lease has expired"),
        (Rules(finishes_the_key_in_hand=False), "a partition was handed over with a key in hand"),
        (Rules(is_fenced=False), "a stale holder's write was taken"),
    ],
    ids=lambda value: "" if isinstance(value, str) else None,
)
def test_the_search_finds_what_each_rule_is_for(rules: Rules, found: str) -> None:
    with pytest.raises(Wrong, match=found):
        Cells(rules, alike=True)


def test_the_search_finds_a_partition_that_nobody_takes_over() -> None:
    cells = Cells(Rules(takes_what_expired=False, fine=False), alike=False)
    assert max(cells.ways_home(frozen=0)) == float("inf")


def test_the_model_s_steps_are_the_code_s() -> None:
    code = _public(leases) | {name for name, _ in inspect.getmembers(Tenures, inspect.isfunction) if name[0] != "_"}
    assert code - NOT_STEPS == BY_MEMBERS - {"write", "fence"}
    assert callable(terms.fence)
    assert callable(Tenures.lapse)


def _public(module: ModuleType) -> set[str]:
    return {
        name
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }
