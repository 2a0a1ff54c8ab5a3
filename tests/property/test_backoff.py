"""Waits stay within their bounds for any attempt number and any bounds."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from smena.backoff import Backoff, Pause

seconds = st.floats(min_value=0.001, max_value=1e6, allow_nan=False)
draws = st.floats(min_value=0.0, max_value=1.0, exclude_max=True)
failures = st.integers(min_value=-5, max_value=10**9)


@given(seconds, seconds, seconds, failures, draws)
def test_a_wait_lies_between_floor_and_cap(
    base_s: float, cap_s: float, floor_s: float, count: int, draw: float
) -> None:
    assume(floor_s <= cap_s)
    wait_s = Backoff(base_s, cap_s, floor_s).wait_s(count, lambda: draw)
    assert floor_s <= wait_s <= cap_s


@given(seconds, seconds, st.integers(min_value=1, max_value=10**9))
def test_ceilings_never_fall_and_at_most_double(base_s: float, cap_s: float, count: int) -> None:
    backoff = Backoff(base_s, cap_s)
    now, later = backoff.ceiling_s(count), backoff.ceiling_s(count + 1)
    assert now <= later <= 2 * now


@given(seconds, draws, failures)
def test_the_jitter_is_full(cap_s: float, draw: float, count: int) -> None:
    backoff = Backoff(base_s=1.0, cap_s=cap_s)
    assert backoff.wait_s(count, lambda: draw) == draw * backoff.ceiling_s(count)


def test_the_first_ceiling_is_the_base() -> None:
    assert [Backoff(base_s=2.0, cap_s=300).ceiling_s(count) for count in (1, 2, 3)] == [2.0, 4.0, 8.0]


@pytest.mark.parametrize(("base_s", "cap_s", "floor_s"), [(0, 1, 0), (-1, 1, 0), (1, 1, 2), (1, 1, -0.1)])
def test_bounds_that_contradict_each_other_are_refused(base_s: float, cap_s: float, floor_s: float) -> None:
    with pytest.raises(ValueError, match="floor_s"):
        Backoff(base_s, cap_s, floor_s)


def test_a_pause_begins_anew_after_a_success() -> None:
    pause = Pause(Backoff(base_s=1.0, cap_s=64.0))
    for _ in range(5):
        pause.next_s()
    pause.reset()
    assert pause.next_s() <= 1.0
