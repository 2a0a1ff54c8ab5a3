"""N reconnects at random points: no accepted message is lost, and each is settled by its own outcome (P01, P03)."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from pydantic import SecretStr

from smena.amqp import codec, names
from smena.job import Job
from tests.fixtures.eventually import PATIENCE_S, eventually
from tests.fixtures.fix_proxy import Proxied
from tests.integration.link.conftest import Broker, Link, Settle
from workers.broker.consumer import Consumer
from workers.broker.delivery import Delivery
from workers.broker.prefetch import Prefetch
from workers.broker.source import work
from workers.drills.tcp_proxy import TcpProxy, Way

PUBLISH = bytes((0, 60, 0, 40))
"""How the frame of a `basic.publish` names itself."""


def jobs(queue: str, count: int) -> list[Job]:
    return [Job(actor="a.b", queue=queue, args=(number,), timestamp_ms=1) for number in range(count)]


def cut_on_the_way(proxy: TcpProxy, is_over: Callable[[], bool]) -> None:
    """Cut when messages have left the publisher that do not come to the broker, or when all is over."""
    swallowed = threading.Event()

    def swallow(data: bytes) -> bytes:
        if PUBLISH in data:
            swallowed.set()
        return b"" if swallowed.is_set() else data

    proxy.alter(Way.TO_SERVER, swallow)
    eventually(lambda: swallowed.is_set() or is_over())
    proxy.refuse()
    proxy.heal()


@pytest.mark.parametrize("seed", range(3))
def test_p03_what_a_publisher_called_confirmed_is_there_whenever_the_connection_was_cut(
    seed: int,
    link: Link,
    settings: Settle,
    amqp_url: str,
    broker: Broker,
    queue: str,
    proxied: Callable[[str], Proxied],
) -> None:
    proxy, url = proxied(amqp_url)
    publisher = link.publisher(settings(urls=(SecretStr(url),), publish_timeout_s=60, reconnect_cap_s=0.2))
    sent = jobs(queue, 3000)
    confirmed: set[str] = set()
    draw = random.Random(seed)
    with ThreadPoolExecutor(2, "sender") as senders:
        halves = [senders.submit(publisher.send_many, sent[half::2]) for half in (0, 1)]
        for _ in range(5):
            if all(half.done() for half in halves):
                break
            cut_on_the_way(proxy, lambda: all(half.done() for half in halves))
            eventually(lambda: draw.random() < 0.2, pause_s=0.005)
        for half, outcomes in enumerate([each.result() for each in halves]):
            confirmed |= {job.id for job, outcome in zip(sent[half::2], outcomes, strict=True) if outcome is None}
    found = ids_in(broker, names.work_queue("test", queue), confirmed)
    assert confirmed <= found
    assert len(confirmed) == len(sent)


@pytest.mark.parametrize("seed", range(3))
def test_p01_every_message_is_settled_by_its_own_outcome_through_reconnects(
    seed: int,
    link: Link,
    settings: Settle,
    amqp_url: str,
    broker: Broker,
    queue: str,
    proxied: Callable[[str], Proxied],
) -> None:
    proxy, url = proxied(amqp_url)
    sent = jobs(queue, 800)
    assert not any(link.publisher(settings()).send_many(sent))
    connection = link.connection(settings(urls=(SecretStr(url),), reconnect_cap_s=0.2), "consume")
    draw = random.Random(seed)
    settles = Settling(draw)
    consumer = Consumer(connection, work("test", [queue]), settles.deliver, "test", Prefetch(20, 100))
    consumer.start()
    for _ in range(6):
        before = settles.seen
        eventually(partial(settles.went_on, before, len(sent)))
        proxy.cut()
    eventually(lambda: settles.all_kept(len(sent)))
    settles.give_up()
    cancelled = threading.Event()
    consumer.cancel(cancelled.set)
    assert cancelled.wait(PATIENCE_S)
    # Exactly what was never acked on a living channel may still be there; here all was.
    eventually(lambda: broker.depth(names.work_queue("test", queue)) == 0)
    assert set(settles.kept) == {job.id for job in sent}


class Settling:
    """Hold deliveries for a random while on threads, then ack or give back; late settles must be dropped."""

    def __init__(self, draw: random.Random) -> None:
        self.seen = 0
        self.kept: Counter[str] = Counter()
        self._draw = draw
        self._held: list[Delivery] = []
        self._lock = threading.Lock()

    def deliver(self, batch: list[Delivery]) -> None:
        with self._lock:
            self.seen += len(batch)
            self._held += batch
            self._draw.shuffle(self._held)
            while len(self._held) > 10:
                self._settle(self._held.pop())
            if self.seen % 7 == 0 or len(self.kept) > 700:
                self.give_up()

    def _settle(self, delivery: Delivery) -> None:
        if self._draw.random() < 0.2:
            delivery.give_back()
            return
        alive = delivery.alive()
        delivery.ack()
        if alive:  # a cut may still eat this ack: then it comes again, which counts it again
            self.kept[codec.decode(delivery.body, delivery.properties).id] += 1

    def give_up(self) -> None:
        while self._held:
            self._settle(self._held.pop())

    def went_on(self, seen: int, count: int) -> bool:
        return self.seen > seen or self.all_kept(count)

    def all_kept(self, count: int) -> bool:
        with self._lock:
            self.give_up()
            return len(self.kept) == count


def ids_in(broker: Broker, queue: str, wanted: set[str]) -> set[str]:
    """Take off the queue until all that are wanted were found, or nothing comes any more."""
    found: set[str] = set()
    missing = set(wanted)
    channel: Any = broker.channel()
    for method, properties, _ in channel.consume(queue, auto_ack=True, inactivity_timeout=PATIENCE_S):
        if method is None:
            return found
        found.add(properties.message_id)
        missing.discard(properties.message_id)
        if not missing:
            return found
    return found
