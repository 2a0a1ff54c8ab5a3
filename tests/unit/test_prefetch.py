"""The prefetch follows the measured length of jobs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workers.broker.prefetch import Prefetch


def test_it_begins_with_twice_the_slots() -> None:
    assert Prefetch(8, 2000).current == 16


def test_short_jobs_raise_it_to_the_most() -> None:
    prefetch = Prefetch(8, 2000)
    assert prefetch.observe(10_000, 2.0)
    assert prefetch.current == 2000


def test_long_jobs_bring_it_down_to_twice_the_slots() -> None:
    prefetch = Prefetch(8, 2000)
    prefetch.observe(10_000, 2.0)
    for _ in range(12):
        prefetch.observe(4, 120.0)
    assert prefetch.current == 16


def test_small_changes_are_not_worth_a_new_subscription() -> None:
    prefetch = Prefetch(8, 2000)
    prefetch.observe(100, 1.0)
    before = prefetch.current
    assert not prefetch.observe(100, 1.2)
    assert prefetch.current == before


def test_an_interval_in_which_nothing_ended_says_nothing() -> None:
    assert not Prefetch(8, 2000).observe(0, 60.0)


@given(st.integers(1, 1000), st.integers(1, 5000), st.lists(st.tuples(st.integers(0, 10**6), st.floats(0, 10**6))))
def test_it_stays_within_its_bounds(slots: int, most: int, measures: list[tuple[int, float]]) -> None:
    prefetch = Prefetch(slots, most)
    for finished, busy_s in measures:
        prefetch.observe(finished, busy_s)
        assert min(2 * slots, most) <= prefetch.current <= most
