"""Settles reach the broker in few frames, each under its own tag (P01)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pika import frame

from workers.broker.delivery import Drops, Tags


class Link:
    """Keep calls until they are made, and understand frames as the broker does."""

    def __init__(self) -> None:
        self.posted: list[Callable[[], object]] = []
        self.later_calls: list[Callable[[], object]] = []
        self.frames: list[Any] = []

    def post(self, call: Callable[[], object]) -> None:
        self.posted.append(call)

    def later(self, _delay_s: float, call: Callable[[], object]) -> None:
        self.later_calls.append(call)

    def write(self, data: bytes) -> None:
        while data:
            used, one = frame.decode_frame(data)
            self.frames.append(one.method)
            data = data[used:]

    def turn(self, *, timers: bool = False) -> None:
        calls, self.posted = self.posted, []
        if timers:
            calls, self.later_calls = calls + self.later_calls, []
        for call in calls:
            call()


def broker_view(sent: list[Any], lent: int) -> tuple[set[int], set[int]]:
    """Return what the broker takes for acked and given back; fail on a tag that is not out."""
    out = set(range(1, lent + 1))
    acked: set[int] = set()
    back: set[int] = set()
    for method in sent:
        tags = {tag for tag in out if tag <= method.delivery_tag} if method.multiple else {method.delivery_tag}
        assert tags <= out, "a tag that is not out closes the channel"
        out -= tags
        (acked if method.NAME == "Basic.Ack" else back).update(tags)
    return acked, back


@given(st.integers(1, 60), st.randoms(use_true_random=False))
def test_whatever_the_order_each_message_has_its_own_outcome(count: int, draw: random.Random) -> None:
    link = Link()
    tags = Tags(1, link, Drops())
    order = list(range(1, count + 1))
    draw.shuffle(order)
    outcomes = {tag: draw.random() < 0.8 for tag in order}
    left_out = set(order[: draw.randrange(count)])
    lent = 0
    for tag in order:
        while lent < tag:
            lent += 1
            tags.lent(lent)
        if tag not in left_out:
            tags.settle(tag if outcomes[tag] else -tag)
        if draw.random() < 0.3:
            link.turn(timers=draw.random() < 0.3)
    link.turn(timers=True)
    link.turn(timers=True)
    acked, back = broker_view(link.frames, count)
    assert acked == {tag for tag in order if outcomes[tag]} - left_out
    assert back == {tag for tag in order if not outcomes[tag]} - left_out


def test_many_acks_in_order_are_one_frame_and_one_wake() -> None:
    link = Link()
    tags = Tags(1, link, Drops())
    for tag in range(1, 501):
        tags.lent(tag)
        tags.settle(tag)
    assert len(link.posted) == 1
    link.turn()
    assert [(one.delivery_tag, one.multiple) for one in link.frames] == [(500, True)]


def test_a_single_ack_goes_out_at_once() -> None:
    link = Link()
    tags = Tags(1, link, Drops())
    tags.lent(1)
    tags.settle(1)
    link.turn()
    assert [(one.delivery_tag, one.multiple) for one in link.frames] == [(1, False)]


def test_one_long_job_does_not_make_memory_grow() -> None:
    link = Link()
    tags = Tags(1, link, Drops())
    tags.lent(1)
    for tag in range(2, 5000):
        tags.lent(tag)
        tags.settle(tag)
        link.turn(timers=True)
    assert len(tags._out) == 1
    assert not tags._acked


def test_p01_settles_of_a_channel_that_is_gone_are_dropped_and_counted() -> None:
    link, drops = Link(), Drops()
    tags = Tags(1, link, drops)
    for tag in (1, 2, 3):
        tags.lent(tag)
    tags.settle(1)
    tags.end()
    tags.settle(2)
    link.turn(timers=True)
    assert link.frames == []
    assert drops.count == 2
