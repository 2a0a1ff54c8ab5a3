"""A canary comes back through its level, and one that does not is told."""

from __future__ import annotations

import pytest

from smena.amqp import names
from smena.clock import SYSTEM, Clock, Deadline
from smena.telemetry import events
from smena.telemetry.event import Occurrence
from tests.fixtures.eventually import PATIENCE_S, eventually
from tests.fixtures.fix_events import Listen
from tests.integration.link.conftest import Broker, Link, Settle
from workers.broker import source
from workers.broker.canary import Canaries, held_s
from workers.broker.consumer import Consumer
from workers.broker.delivery import Delivery
from workers.broker.prefetch import Prefetch


class Hurried:
    """The machine's clock, with a monotonic time that a test can put forward."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self.now, self.now_ms = SYSTEM.now, SYSTEM.now_ms

    def monotonic(self) -> float:
        return SYSTEM.monotonic() + self.ahead_s


@pytest.fixture
def told(listen: Listen) -> list[Occurrence]:
    return listen(events.CANARY_LATE, events.CANARY_RETURNED)


def fly(link: Link, settings: Settle, clock: Clock, levels: list[int]) -> Canaries:
    return Canaries(link.publisher(settings()), "test", clock, lambda: True, levels)


def test_canaries_come_back_through_their_levels(link: Link, settings: Settle, told: list[Occurrence]) -> None:
    canaries = fly(link, settings, SYSTEM, [0, 1, 2])
    consumer = Consumer(
        link.connection(settings(), "consume"), [source.canary("test")], canaries.deliver, "test", Prefetch(5, 10)
    )
    consumer.start()
    eventually(consumer.is_subscribed)
    canaries.start()
    try:
        eventually(lambda: {one.fields["delay_level"] for one in told} >= {0, 1, 2})
    finally:
        assert canaries.stop(Deadline.within(PATIENCE_S, SYSTEM))
    assert all(one.event is events.CANARY_RETURNED for one in told)
    assert all(float(str(one.fields["late_s"])) > -0.01 for one in told)


def test_a_canary_that_stays_away_is_told(link: Link, settings: Settle, broker: Broker, told: list[Occurrence]) -> None:
    clock, kept = Hurried(), list[Delivery]()
    canaries = fly(link, settings, clock, [3])
    consumer = Consumer(
        link.connection(settings(), "consume"), [source.canary("test")], kept.extend, "test", Prefetch(5, 10)
    )
    consumer.start()
    eventually(consumer.is_subscribed)
    canaries.start()
    try:
        eventually(lambda: kept)
        clock.ahead_s = 40.0
        eventually(lambda: [one.event for one in told] == [events.CANARY_LATE])
    finally:
        assert canaries.stop(Deadline.within(PATIENCE_S, SYSTEM))
    for delivery in kept:
        delivery.ack()


def test_a_level_holds_what_its_name_says() -> None:
    assert [held_s(level) for level in (0, 4, 23)] == [0.064, 1.024, 536870.912]
    assert names.level_route("p", 0, "canary")[1].endswith("0.1.canary")
