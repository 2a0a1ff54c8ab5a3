"""Delays are held by the broker, come due on time, and never stop at a queue that is gone (P14, P15, P16)."""

from __future__ import annotations

import time
from functools import partial

import pytest

from smena.amqp import codec, names
from smena.amqp.outgoing import Outgoing
from smena.errors import DelayTooLong
from smena.job import Job
from tests.fixtures.eventually import eventually
from tests.integration.link.conftest import Broker, Link, Settle
from workers.broker.consumer import Consumer
from workers.broker.delivery import Delivery
from workers.broker.prefetch import Prefetch
from workers.broker.source import Source, lost, work
from workers.local.services import LocalServices


class Arrivals:
    """Note when each job came, and ack it."""

    def __init__(self, link: Link, settings: Settle, source: Source) -> None:
        self.at_ms: dict[str, float] = {}
        self.deliveries: list[Delivery] = []
        connection = link.connection(settings(), "consume")
        Consumer(connection, [source], self._deliver, "test", Prefetch(100, 200)).start()

    def are(self, count: int) -> bool:
        return len(self.deliveries) == count

    def _deliver(self, batch: list[Delivery]) -> None:
        for delivery in batch:
            self.at_ms[delivery.properties.message_id or "?"] = time.time() * 1000
            self.deliveries.append(delivery)
            delivery.ack()


def job(queue: str) -> Job:
    return Job(actor="a.b", queue=queue, timestamp_ms=int(time.time() * 1000))


def test_a_delayed_job_comes_no_sooner_than_asked(link: Link, settings: Settle, broker: Broker, queue: str) -> None:
    publisher = link.publisher(settings())
    arrivals = Arrivals(link, settings, work("test", [queue])[0])
    waits: dict[str, tuple[float, float]] = {}
    for delay_s in (0.05, 0.3, 0.7, 1.1, 1.9):
        delayed = job(queue)
        waits[delayed.id] = (time.time() * 1000, delay_s * 1000)
        publisher.send(delayed, delay_s=delay_s)
    eventually(lambda: len(arrivals.at_ms) == 5)
    for job_id, (sent_ms, delay_ms) in waits.items():
        assert arrivals.at_ms[job_id] - sent_ms >= delay_ms - 2  # two clocks that tick in milliseconds


def test_p15_a_near_job_passes_thousands_of_far_ones(link: Link, settings: Settle, broker: Broker, queue: str) -> None:
    publisher = link.publisher(settings())
    arrivals = Arrivals(link, settings, work("test", [queue])[0])
    far = [publisher.outgoing_for(job(queue), 3600 + number) for number in range(3000)]
    assert not any(publisher.publish_and_wait(far))
    near = job(queue)
    publisher.send(near, delay_s=0.5)
    eventually(lambda: near.id in arrivals.at_ms)
    assert set(arrivals.at_ms) == {near.id}
    for level in range(14, names.LEVELS):
        broker.channel().queue_purge(names.delay_exchange("test", level))


def test_p16_a_job_goes_round_the_delays_again_and_again(
    link: Link, settings: Settle, broker: Broker, queue: str
) -> None:
    publisher = link.publisher(settings())
    arrivals = Arrivals(link, settings, work("test", [queue])[0])
    again = job(queue)
    for round_ in range(1, 5):
        publisher.send(again, delay_s=0.1)
        eventually(partial(arrivals.are, round_))
        came = arrivals.deliveries[-1]
        headers = came.properties.headers
        assert headers is not None
        assert "x-death" in headers
        again = codec.decode(came.body, came.properties).next_attempt()
        assert not any(name.startswith("x-") for name in (codec.encode(again).properties.headers or {}))
    assert again.attempt == 5


def test_a_due_job_whose_queue_is_gone_is_kept_in_lost_and_stops_nobody(
    link: Link, settings: Settle, broker: Broker, queue: str
) -> None:
    publisher = link.publisher(settings())
    gone, there = f"{queue}.gone", queue
    broker.doom(names.dead_queue("test", gone))
    publisher.send(job(gone), delay_s=0.05)
    strays = Arrivals(link, settings, lost("test"))
    arrivals = Arrivals(link, settings, work("test", [there])[0])
    broker.channel().queue_delete(names.work_queue("test", gone))
    stray = job(gone)
    exchange, routing_key = names.delay_route("test", 300, gone)
    wire = codec.encode(stray)
    assert publisher.publish_and_wait([Outgoing(exchange, routing_key, wire.body, wire.properties)]) == [None]
    after = job(there)
    publisher.send(after, delay_s=0.3)
    eventually(lambda: stray.id in strays.at_ms)
    eventually(lambda: after.id in arrivals.at_ms)
    kept = next(each for each in strays.deliveries if each.properties.message_id == stray.id)
    assert names.delayed_target(kept.routing_key) == gone


def test_a_name_that_ends_alike_gets_nothing_of_its_namesake(
    link: Link, settings: Settle, broker: Broker, queue: str
) -> None:
    publisher = link.publisher(settings())
    longer = f"eu.{queue}"
    broker.doom(names.work_queue("test", longer), names.dead_queue("test", longer))
    publisher.send(job(queue), delay_s=0.01)
    publisher.send(job(longer), delay_s=0.01)
    eventually(lambda: broker.depth(names.work_queue("test", longer)) == 1)
    eventually(lambda: broker.depth(names.work_queue("test", queue)) == 1)


def test_longer_than_the_levels_is_a_typed_error(link: Link, settings: Settle, queue: str) -> None:
    with pytest.raises(DelayTooLong):
        link.publisher(settings()).send(job(queue), delay_s=names.MAX_DELAY_MS / 1000 + 1)


def test_p14_a_broker_killed_with_delayed_jobs_loses_none(
    link: Link, settings: Settle, broker: Broker, queue: str, services: LocalServices
) -> None:
    publisher = link.publisher(settings(publish_timeout_s=60))
    sent = [job(queue) for _ in range(300)]
    assert not any(publisher.publish_and_wait([publisher.outgoing_for(each, 2.0) for each in sent]))
    # Of a queue younger than some seconds RabbitMQ holds its existence in memory; this test is about older ones.
    services.rabbitmq.ctl("eval", "mnesia:sync_log(), [dets:sync(Table) || Table <- dets:all()].")
    broker.leave()
    services.rabbitmq.kill()
    services.rabbitmq.start()
    arrivals = Arrivals(link, settings, work("test", [queue])[0])
    eventually(lambda: set(arrivals.at_ms) >= {each.id for each in sent})
