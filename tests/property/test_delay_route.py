"""A delay's route is as long as the delay, and less than one per cent longer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smena.amqp import arguments, names
from smena.amqp.arguments import Binding, Queue
from smena.errors import DelayTooLong, Misconfigured

RESERVED = ["lost", "canary", "dead", "mail.dead", "delay.v1.03", "delay"]
QUEUE_NAMES = st.from_regex(r"[a-z0-9_-]{1,9}(\.[a-z0-9_-]{1,9}){0,3}", fullmatch=True)


def passed_ms(exchange: str, routing_key: str) -> int:
    """Walk the declared bindings as the broker does; return the sum of the TTLs."""
    plan = arguments.delays("p")
    ttl = {one.name: one.arguments["x-message-ttl"] for one in plan if isinstance(one, Queue) and "delay" in one.name}
    targets = {
        one.name: one.arguments["x-dead-letter-exchange"]
        for one in plan
        if isinstance(one, Queue) and "delay" in one.name
    }
    total = 0
    while exchange != names.due_exchange("p"):
        found = [
            one for one in plan if isinstance(one, Binding) and one.source == exchange and matches(one.key, routing_key)
        ]
        assert len(found) == 1, "exactly one way on"
        if found[0].to_exchange:
            exchange = found[0].target
        else:
            total += ttl[found[0].target]
            exchange = targets[found[0].target]
    return total


def matches(pattern: str, key: str) -> bool:
    """Say whether a topic key matches, for patterns whose only `#` is the last word."""
    wanted, words = pattern.split("."), key.split(".")
    if wanted[-1] == "#":
        wanted, words = wanted[:-1], words[: len(wanted) - 1]
    return len(wanted) == len(words) and all(w in {"*", k} for w, k in zip(wanted, words, strict=True))


@given(st.integers(1, names.MAX_DELAY_MS), QUEUE_NAMES)
def test_the_levels_on_the_way_sum_up_to_the_delay_and_at_most_one_per_cent_more(delay_ms: int, queue: str) -> None:
    exchange, routing_key = names.delay_route("p", delay_ms, queue)
    passed = passed_ms(exchange, routing_key)
    assert delay_ms <= passed
    assert passed < delay_ms * 1.01 + names.UNIT_MS
    assert len(routing_key) <= 255
    assert names.delayed_target(routing_key) == queue


@given(QUEUE_NAMES, QUEUE_NAMES, st.integers(1, 10**6))
def test_only_the_queue_that_is_meant_matches_when_due(meant: str, other: str, delay_ms: int) -> None:
    _, routing_key = names.delay_route("p", delay_ms, meant)
    assert matches(names.due_pattern(meant), routing_key)
    if other != meant:
        assert not matches(names.due_pattern(other), routing_key)


@given(st.integers(1, names.MAX_DELAY_MS), st.integers(1, names.MAX_DELAY_MS))
def test_a_longer_delay_is_never_rounded_below_a_shorter_one(one: int, other: int) -> None:
    short, long = sorted((one, other))
    assert names.delay_units(short) <= names.delay_units(long)


@given(st.integers(1, names.MAX_DELAY_MS))
def test_a_delay_passes_at_most_eight_levels(delay_ms: int) -> None:
    assert names.delay_units(delay_ms).bit_count() <= names.SIGNIFICANT_BITS


@given(st.integers(names.MAX_DELAY_MS + 1, 2**60))
def test_a_longer_delay_than_the_levels_hold_is_an_error(delay_ms: int) -> None:
    with pytest.raises(DelayTooLong):
        names.delay_route("p", delay_ms, "q")


@given(QUEUE_NAMES.filter(lambda name: not name.endswith("dead") and not name.startswith(("delay", "lost", "canary"))))
def test_good_queue_names_are_taken(name: str) -> None:
    assert names.check_queue_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", ".", "a.", ".a", "a..b", "a*", "*", "a.#", "#", "a b", "ä", "x" * 128, "a\0", "a\n", *RESERVED],
)
def test_other_queue_names_are_refused(name: str) -> None:
    with pytest.raises(Misconfigured):
        names.check_queue_name(name)
