"""A partition goes from one owner to the next without a message overtaking another (guarantee 5)."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from smena.amqp import codec, names
from smena.job import Job
from tests.fixtures.eventually import PATIENCE_S, eventually
from tests.integration.link.conftest import Broker, Link, Settle
from workers.broker.delivery import Delivery
from workers.broker.partition_consumer import PartitionConsumer

COUNT = 90
PREFETCH = 32


@pytest.fixture
def partition(link: Link, settings: Settle, broker: Broker, queue: str) -> str:
    """Give a queue whose partition 0 holds jobs in order."""
    broker.doom(names.work_queue("test", names.address(queue, 0)))
    given = {"actor": "a.b", "queue": queue, "timestamp_ms": 1, "partition_key": "k", "partition": 0}
    jobs = [Job(args=(number,), **given) for number in range(COUNT)]  # type: ignore[arg-type]
    assert not any(link.publisher(settings()).send_many(jobs))
    return queue


class Owner:
    """Works a partition: keeps what comes, acks what it is told to."""

    def __init__(self, link: Link, settings: Settle, queue: str) -> None:
        self.connection = link.connection(settings(), "owner")
        self.consumer = PartitionConsumer(self.connection, "test", PREFETCH)
        self.queue = queue
        self.had: list[Delivery] = []
        self.lost = threading.Event()
        self.consumer.start()
        self.consumer.take(queue, 0, self)

    def deliver(self, deliveries: list[Delivery]) -> None:
        self.had += deliveries

    def channel_lost(self) -> None:
        self.lost.set()

    def numbers(self) -> list[int]:
        return [codec.decode(each.body, each.properties, each.queue).args[0] for each in self.had]

    def let_go(self) -> None:
        done = threading.Event()
        self.consumer.let_go(self.queue, 0, done.set)
        assert done.wait(PATIENCE_S)

    def drain(self, count: int) -> list[int]:
        """Ack all until that many have come."""

        def taken() -> bool:
            for delivery in list(self.had):
                delivery.ack()
            return len(self.had) >= count

        eventually(taken)
        return self.numbers()


End = Callable[[Owner], None]


@pytest.mark.parametrize("end", [Owner.let_go, lambda owner: owner.consumer.drop(owner.queue, 0)])
def test_the_next_owner_gets_what_is_unsettled_first_and_in_order(
    end: End, link: Link, settings: Settle, partition: str
) -> None:
    first = Owner(link, settings, partition)
    eventually(lambda: len(first.had) == PREFETCH)
    for number in (0, 2, 3, 7):
        first.had[number].ack()
    left = [number for number in range(COUNT) if number not in (0, 2, 3, 7)]
    threading.Event().wait(0.05)  # so that the acks are told; else they come again, which is no loss of order

    end(first)
    got = Owner(link, settings, partition).drain(len(left))

    assert [number for number in got if number in left] == left
    assert got == sorted(got)


def test_nothing_overtakes_what_another_consumer_still_holds(link: Link, settings: Settle, partition: str) -> None:
    first = Owner(link, settings, partition)
    eventually(lambda: len(first.had) == PREFETCH)
    second = Owner(link, settings, partition)
    threading.Event().wait(0.3)  # time enough to get what it must not
    first.let_go()
    assert second.drain(COUNT) == list(range(COUNT))


def test_what_is_in_hand_can_be_settled_when_nothing_comes_any_more(
    link: Link, settings: Settle, partition: str
) -> None:
    owner = Owner(link, settings, partition)
    eventually(lambda: len(owner.had) == PREFETCH)
    silent = threading.Event()
    owner.consumer.silence(partition, 0, silent.set)
    assert silent.wait(PATIENCE_S)
    had = len(owner.had)
    for delivery in owner.had:
        delivery.ack()
    owner.let_go()
    assert Owner(link, settings, partition).drain(COUNT - had) == list(range(had, COUNT))


def test_a_lost_connection_brings_the_unsettled_again_from_the_first_on(
    link: Link, settings: Settle, partition: str
) -> None:
    owner = Owner(link, settings, partition)
    eventually(lambda: len(owner.had) == PREFETCH)
    link.thread.post(owner.connection.drop)
    assert owner.lost.wait(PATIENCE_S)
    del owner.had[:PREFETCH]
    assert owner.drain(COUNT) == list(range(COUNT))


def test_a_held_partition_brings_nothing_more_and_goes_on_where_it_stopped(
    link: Link, settings: Settle, partition: str
) -> None:
    owner = Owner(link, settings, partition)
    eventually(lambda: len(owner.had) == PREFETCH)
    owner.consumer.hold(partition, 0, holding=True)
    done = threading.Event()
    owner.consumer.post(done.set)
    assert done.wait(PATIENCE_S)
    owner.consumer.hold(partition, 0, holding=False)
    assert owner.drain(COUNT) == list(range(COUNT))


def test_nobody_settles_what_was_let_go(link: Link, settings: Settle, partition: str) -> None:
    first = Owner(link, settings, partition)
    eventually(lambda: len(first.had) == PREFETCH)
    first.let_go()
    for delivery in first.had:
        assert not delivery.alive()
        delivery.ack()
    assert Owner(link, settings, partition).drain(COUNT) == list(range(COUNT))
