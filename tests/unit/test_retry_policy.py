"""An actor's retry policy, filled from the settings."""

from dataclasses import dataclass

import pytest

from smena.book import Retry
from smena.errors import Misconfigured
from smena.settings import load


@dataclass(frozen=True)
class Defaults:
    attempts: int = 5
    base_s: float = 1.0
    cap_s: float = 300.0
    total_age_s: float = 86_400.0
    unexpected_attempts: int = 3


def test_what_the_author_leaves_open_comes_from_the_settings() -> None:
    policy = Retry(attempts=12, cap_s=60).policy(load(env={}).retry)

    assert (policy.attempts, policy.cap_s) == (12, 60)
    assert (policy.base_s, policy.total_age_s, policy.unexpected_attempts) == (1, 86_400, 3)
    assert policy.backoff.ceiling_s(100) == 60


def test_few_attempts_in_all_bound_the_unexpected_ones() -> None:
    assert Retry(attempts=1).policy(Defaults()).unexpected_attempts == 1


def test_one_own_bound_moves_the_default_of_the_other() -> None:
    slow, quick = Retry(base_s=600).policy(Defaults()), Retry(cap_s=0.5).policy(Defaults())

    assert (slow.base_s, slow.cap_s) == (600, 600)
    assert (quick.base_s, quick.cap_s) == (0.5, 0.5)


@pytest.mark.parametrize("name", ["attempts", "base_s", "cap_s", "total_age_s", "unexpected_attempts"])
def test_no_value_may_be_zero_or_below(name: str) -> None:
    for value in (0, -1):
        with pytest.raises(Misconfigured, match=name):
            Retry(**{name: value})


def test_a_base_above_the_cap_is_refused() -> None:
    with pytest.raises(Misconfigured, match="base_s <= cap_s"):
        Retry(base_s=10, cap_s=5).policy(Defaults())
