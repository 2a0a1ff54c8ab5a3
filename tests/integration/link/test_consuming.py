"""Consuming goes on whatever the broker does, and settles meet their own messages (P01, P06, P08, P19)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pika
import pytest
from pydantic import SecretStr

from smena.amqp import codec, names
from smena.errors import Undecodable
from smena.job import Job
from smena.settings.groups import Amqp
from smena.telemetry import events
from smena.telemetry.event import Occurrence
from tests.fixtures.eventually import PATIENCE_S, eventually
from tests.fixtures.fix_events import Listen
from tests.fixtures.fix_proxy import Proxied
from tests.integration.link.conftest import Broker, Link, Settle, await_answer
from workers.broker.consumer import Consumer
from workers.broker.delivery import Delivery
from workers.broker.prefetch import Prefetch
from workers.broker.source import dead_letters, work


class Held:
    """Keep what comes, in order."""

    def __init__(self) -> None:
        self.all: list[Delivery] = []

    def deliver(self, batch: list[Delivery]) -> None:
        self.all += batch

    def has(self, least: int) -> bool:
        return len(self.all) >= least

    def numbers(self) -> list[int]:
        return [codec.decode(each.body, each.properties).args[0] for each in self.all]


def consume(link: Link, settings: Amqp, queue: str, held: Held, most: int = 100, slots: int = 50) -> Consumer:
    connection = link.connection(settings, "consume")
    consumer = Consumer(connection, work("test", [queue]), held.deliver, "test", Prefetch(slots, most))
    consumer.start()
    return consumer


def fill(link: Link, settings: Settle, queue: str, count: int) -> None:
    jobs = [Job(actor="a.b", queue=queue, args=(number,), timestamp_ms=1) for number in range(count)]
    assert not any(link.publisher(settings()).send_many(jobs))


@pytest.fixture
def ends(listen: Listen) -> list[Occurrence]:
    """What is told of subscriptions that ended; one that is taken up again may be back before anybody looks."""
    return listen(events.CONSUMER_CANCELLED)


def cancel(consumer: Consumer) -> None:
    cancelled = threading.Event()
    consumer.cancel(cancelled.set)
    assert cancelled.wait(PATIENCE_S)


def test_p01_a_settle_that_comes_after_a_reconnect_is_dropped_and_counted(
    link: Link, settings: Settle, amqp_url: str, broker: Broker, queue: str, proxied: Callable[[str], Proxied]
) -> None:
    fill(link, settings, queue, 10)
    proxy, url = proxied(amqp_url)
    held = Held()
    consumer = consume(link, settings(urls=(SecretStr(url),)), queue, held)
    eventually(lambda: len(held.all) == 10)
    proxy.cut()
    eventually(lambda: len(held.all) == 20)
    before, after = held.all[:10], held.all[10:]
    assert [each.alive() for each in before] == [False] * 10
    assert all(each.redelivered for each in after)
    for delivery in before:
        delivery.ack()
    after[3].ack()
    eventually(lambda: consumer.dropped() == 10)
    cancel(consumer)
    for delivery in after:
        delivery.give_back()
    eventually(lambda: broker.depth(names.work_queue("test", queue)) == 9)


def test_acks_out_of_order_and_give_backs_among_them_all_reach_the_broker(
    link: Link, settings: Settle, broker: Broker, queue: str
) -> None:
    fill(link, settings, queue, 60)
    held = Held()
    consumer = consume(link, settings(), queue, held)
    eventually(lambda: len(held.all) == 60)
    cancel(consumer)
    for delivery in held.all[59:20:-1]:
        delivery.ack()
    for delivery in held.all[:20:2]:
        delivery.give_back()
        delivery.ack()  # the first settle counts
    for delivery in held.all[1:21:2]:
        delivery.ack()
    eventually(lambda: broker.depth(names.work_queue("test", queue)) == 10)
    held.all[20].ack()
    await_answer(consumer)
    link.stop()
    eventually(lambda: broker.depth(names.work_queue("test", queue)) == 10)


def test_an_ack_goes_out_while_an_elder_is_still_running(
    link: Link, settings: Settle, broker: Broker, queue: str
) -> None:
    fill(link, settings, queue, 3)
    held = Held()
    consume(link, settings(), queue, held, most=2, slots=1)
    eventually(lambda: len(held.all) == 2)
    held.all[1].ack()
    eventually(lambda: len(held.all) == 3)  # with a prefetch of 2 the third comes only when the broker has the ack


def test_p06_a_subscription_that_the_broker_cancels_is_taken_up_again(
    link: Link, settings: Settle, broker: Broker, queue: str, ends: list[Occurrence]
) -> None:
    fill(link, settings, queue, 1)
    held = Held()
    consumer = consume(link, settings(), queue, held)
    eventually(lambda: len(held.all) == 1)
    broker.channel().queue_delete(names.work_queue("test", queue))
    eventually(lambda: ends)
    eventually(consumer.is_subscribed)
    fill(link, settings, queue, 1)
    eventually(lambda: len(held.all) == 2)


def test_a_channel_that_the_broker_closes_is_opened_again(
    link: Link, settings: Settle, broker: Broker, queue: str
) -> None:
    fill(link, settings, queue, 1)
    held = Held()
    consume(link, settings(), queue, held)
    eventually(lambda: len(held.all) == 1)
    held.all[0]._tags.settle(4711)  # the broker closes a channel on which a tag is settled that it never gave
    eventually(lambda: len(held.all) == 2)
    assert not held.all[0].alive()
    assert held.all[1].alive()


def test_p55_a_queue_with_other_arguments_is_told_and_not_consumed(
    link: Link, settings: Settle, broker: Broker, queue: str, ends: list[Occurrence]
) -> None:
    broker.channel().queue_declare(names.work_queue("test", queue), durable=True)
    consumer = consume(link, settings(), queue, Held())
    eventually(lambda: ends)
    assert "differs from what Smena declares" in str(ends[0].fields["why"])
    assert not consumer.is_subscribed()
    broker.channel().queue_delete(names.work_queue("test", queue))
    eventually(consumer.is_subscribed)


def test_pause_takes_nothing_more_and_resume_goes_on(link: Link, settings: Settle, broker: Broker, queue: str) -> None:
    held = Held()
    consumer = consume(link, settings(), queue, held)
    eventually(consumer.is_subscribed)
    consumer.pause()
    eventually(lambda: not consumer.is_subscribed())
    eventually(lambda: consumers(broker, queue) == 0)
    fill(link, settings, queue, 5)
    assert not held.all
    consumer.resume()
    eventually(lambda: len(held.all) == 5)


def test_p08_after_cancel_nothing_more_comes(link: Link, settings: Settle, broker: Broker, queue: str) -> None:
    fill(link, settings, queue, 500)
    held = Held()
    consumer = consume(link, settings(), queue, held)
    eventually(lambda: held.all)
    cancel(consumer)
    count = len(held.all)
    for delivery in held.all:
        delivery.ack()
    eventually(lambda: broker.depth(names.work_queue("test", queue)) == 500 - count)
    assert len(held.all) == count


def test_the_prefetch_grows_with_short_jobs_and_every_message_is_settled(
    link: Link, settings: Settle, broker: Broker, queue: str
) -> None:
    fill(link, settings, queue, 400)
    held = Held()
    consumer = consume(link, settings(), queue, held, most=300, slots=2)
    eventually(lambda: len(held.all) == 4)
    consumer.observe(finished=100, busy_s=0.1)
    eventually(lambda: len(held.all) == 4 + 300)  # a fresh tag has room of its own
    consumer.observe(finished=1, busy_s=10.0)
    eventually(lambda: not consumer.is_subscribed())  # and is not again before there is room
    for delivery in held.all:
        delivery.ack()
    acked = 304
    while acked < 400:
        eventually(partial(held.has, acked + 1))
        for delivery in held.all[acked:]:
            delivery.ack()
            acked += 1
    cancel(consumer)
    assert sorted(held.numbers()) == list(range(400))
    await_answer(consumer)
    link.stop()
    assert broker.depth(names.work_queue("test", queue)) == 0


def test_p19_handing_back_again_and_again_makes_no_dead_letter(
    link: Link, settings: Settle, broker: Broker, queue: str
) -> None:
    fill(link, settings, queue, 3)
    held = Held()
    consume(link, settings(), queue, held)
    for round_ in range(1, 31):  # 4.x would give up at 20 without the limit that is declared
        eventually(partial(held.has, 3 * round_))
        for delivery in held.all[-3:]:
            delivery.give_back()
    eventually(lambda: len(held.all) == 93)
    assert broker.depth(names.dead_queue("test", queue)) == 0


def test_several_queues_are_consumed_and_cancelled_together(
    link: Link, settings: Settle, broker: Broker, queue: str
) -> None:
    queues = [f"{queue}.{number}" for number in range(3)]
    for each in queues:
        broker.doom(names.work_queue("test", each), names.dead_queue("test", each))
        fill(link, settings, each, 2)
    held = Held()
    connection = link.connection(settings(), "consume")
    consumer = Consumer(connection, work("test", queues), held.deliver, "test", Prefetch(5, 10))
    consumer.start()
    eventually(lambda: len(held.all) == 6)
    assert {each.queue for each in held.all} == set(queues)
    cancel(consumer)
    for delivery in held.all:
        delivery.ack()  # a quorum queue counts a cancelled consumer until it has settled
    eventually(lambda: [consumers(broker, each) for each in queues] == [0, 0, 0])


def test_p06_a_queue_is_subscribed_again_however_full_the_others_are(
    link: Link, settings: Settle, broker: Broker, queue: str, ends: list[Occurrence]
) -> None:
    queues = [f"{queue}.{number}" for number in range(4)]
    for each in queues:
        broker.doom(names.work_queue("test", each), names.dead_queue("test", each))
    for each in queues[1:]:
        fill(link, settings, each, 20)
    held = Held()
    connection = link.connection(settings(), "consume")
    prefetch = Prefetch(8, 16)
    consumer = Consumer(connection, work("test", queues), held.deliver, "test", prefetch)
    consumer.start()
    eventually(lambda: len(held.all) == 3 * prefetch.share(4))
    broker.channel().queue_delete(names.work_queue("test", queues[0]))
    eventually(lambda: ends)
    eventually(consumer.is_subscribed)


def test_a_large_body_comes_whole(link: Link, settings: Settle, broker: Broker, queue: str) -> None:
    publisher = link.publisher(settings())
    job = Job(actor="a.b", queue=queue, args=("x" * 3_000_000,), timestamp_ms=1)
    held = Held()
    consume(link, settings(), queue, held)
    publisher.send(job)
    publisher.send(job.replace(args=("",)))
    eventually(lambda: len(held.all) == 2)
    assert codec.decode(held.all[0].body, held.all[0].properties).args == job.args


def test_p23_any_message_of_any_client_comes_through_and_can_be_settled(
    link: Link, settings: Settle, broker: Broker, queue: str
) -> None:
    fill(link, settings, queue, 1)
    there = names.work_queue("test", queue)
    broker.take(there)
    broker.publish(there, b"")
    broker.publish(
        there, b"\xef\xbb\xbf{}", pika.BasicProperties(headers={"smena-attempt": "many", "n": None, "l": [1]})
    )
    broker.publish(there, b'{"queue_name": []}', pika.BasicProperties(content_type="x", priority=200, timestamp=5))
    held = Held()
    consumer = consume(link, settings(), queue, held)
    eventually(lambda: len(held.all) == 3)
    for delivery in held.all:
        try:
            codec.decode(delivery.body, delivery.properties)
        except Undecodable:
            delivery.ack()
    await_answer(consumer)
    link.stop()
    assert broker.depth(there) == 0


def test_p18_what_the_broker_rejects_lies_in_the_dead_letter_queue(
    link: Link, settings: Settle, broker: Broker, queue: str
) -> None:
    fill(link, settings, queue, 1)
    channel = broker.channel()
    method, _, _ = channel.basic_get(names.work_queue("test", queue))
    channel.basic_reject(method.delivery_tag, requeue=False)
    held = Held()
    connection = link.connection(settings(), "consume")
    Consumer(connection, dead_letters("test", [queue]), held.deliver, "test", Prefetch(1, 1)).start()
    eventually(lambda: len(held.all) == 1)
    assert held.all[0].queue == queue
    headers = held.all[0].properties.headers
    assert headers is not None
    assert headers["x-first-death-reason"] == "rejected"


def consumers(broker: Broker, queue: str) -> int:
    answer = broker.channel().queue_declare(names.work_queue("test", queue), passive=True)
    return int(answer.method.consumer_count)


def test_a_prefetch_that_swings_holds_no_more_than_its_bounds(
    link: Link, settings: Settle, broker: Broker, queue: str
) -> None:
    """What an ended subscription has lent counts against no prefetch: renewals must not add up (guarantee 7)."""
    fill(link, settings, queue, 1000)
    held = Held()
    consumer = consume(link, settings(), queue, held, slots=4)
    eventually(lambda: len(held.all) == 8)
    consumer.observe(100, 0.0001)
    eventually(lambda: len(held.all) == 8 + 100)
    for _ in range(5):
        for _ in range(8):
            consumer.observe(1, 100.0)
        eventually(lambda: not consumer.is_subscribed() or len(held.all) > 8 + 100)
        consumer.observe(100, 0.0001)
        consumer.observe(100, 0.0001)
    held_at_most = held.all[:]
    for delivery in held_at_most:
        delivery.ack()
    eventually(lambda: len(held.all) > len(held_at_most))
    cancel(consumer)
    assert len(held_at_most) <= 8 + 100


def test_many_queues_share_one_prefetch() -> None:
    prefetch = Prefetch(8, 2000)
    prefetch.observe(100, 0.0001)
    assert prefetch.current == 2000
    assert prefetch.share(1) == 2000
    assert prefetch.share(4) == 500
    assert prefetch.share(1000) == 8
