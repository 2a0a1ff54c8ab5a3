"""Every publish ends as confirmed or as a typed error (P03, P04), whatever happens to the broker."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
import time
from typing import Any

import pytest
from pydantic import SecretStr

from smena.amqp import codec, names
from smena.amqp.deadletter import Death
from smena.amqp.outgoing import Outgoing
from smena.amqp.properties import Properties
from smena.amqp.publisher import Publisher
from smena.clock import SYSTEM
from smena.errors import (
    BrokerBlocked,
    BrokerLost,
    Misconfigured,
    PublishTimeout,
    TooLarge,
    TopologyMismatch,
    Unroutable,
    Unsendable,
)
from smena.job import Job
from smena.telemetry import events
from tests.fixtures.eventually import PATIENCE_S, eventually
from tests.fixtures.fix_events import Listen
from tests.integration.link.conftest import Broker, Link, Settle
from workers.local.services import LocalServices


def a_job(queue: str, number: int = 1, **changes: Any) -> Job:
    return Job(actor="shop.sell", queue=queue, args=(number,), timestamp_ms=int(time.time() * 1000), **changes)


def test_a_confirmed_job_lies_in_its_queue_as_dramatiqs_message(
    link: Link, settings: Settle, broker: Broker, queue: str
) -> None:
    job = a_job(queue, request_id="r-1")
    link.publisher(settings()).send(job)
    taken = broker.take(names.work_queue("test", queue))
    assert taken is not None
    _, properties, body = taken
    assert b'"message_id":"%b"' % job.id.encode() in body
    assert (properties.message_id, properties.type, properties.delivery_mode) == (job.id, "shop.sell", 2)
    assert properties.headers["smena-attempt"] == 1
    assert properties.headers["smena-request-id"] == "r-1"


def test_the_first_message_to_a_queue_without_consumers_is_told_once(
    link: Link, settings: Settle, broker: Broker, queue: str, listen: Listen
) -> None:
    told = listen(events.QUEUE_UNATTENDED)
    publisher = link.publisher(settings())
    publisher.send(a_job(queue))
    broker.channel().basic_consume(names.work_queue("test", queue), lambda *_: None)
    publisher.send(a_job(queue))
    link.publisher(settings()).send(a_job(queue))
    assert [one.fields["queue"] for one in told] == [queue]


def test_a_queue_that_is_attended_soon_is_not_told_of_by_who_gives_it_time(
    link: Link, settings: Settle, broker: Broker, queue: str, listen: Listen
) -> None:
    told = listen(events.QUEUE_UNATTENDED)
    attended, mistyped, subscribed = queue, f"{queue}-mistyped", threading.Event()
    publisher = Publisher(link.connection(settings(), "publish"), settings(), SYSTEM, attended_within_s=2.0)
    publisher.start()
    publisher.send(a_job(attended))
    link.thread.post(subscribed.wait)  # no timer is due before
    broker.channel().basic_consume(names.work_queue("test", attended), lambda *_: None)
    subscribed.set()
    publisher.send(a_job(mistyped))
    publisher.send(a_job(mistyped))
    eventually(lambda: bool(told))
    assert [one.fields["queue"] for one in told] == [mistyped]


def test_a_message_leaves_while_the_link_thread_is_busy(
    link: Link, settings: Settle, broker: Broker, queue: str
) -> None:
    publisher, busy, let_go = link.publisher(settings()), threading.Event(), threading.Event()
    publisher.send(a_job(queue))
    outcomes: list[Any] = []

    def be_busy() -> None:
        busy.set()
        let_go.wait()

    link.thread.post(be_busy)
    assert busy.wait(PATIENCE_S)  # else it might read the answer first
    try:
        publisher.publish([publisher.outgoing_for(a_job(queue, 2))], outcomes.extend)
        eventually(lambda: broker.depth(names.work_queue("test", queue)) == 2)
        assert not outcomes
    finally:
        let_go.set()
    eventually(lambda: outcomes == [None])


def test_threads_that_send_at_once_are_each_confirmed_in_their_own_order(
    link: Link, settings: Settle, broker: Broker, queue: str
) -> None:
    publisher = link.publisher(settings())

    def send(first: int) -> None:
        for number in range(first, first + 50):
            publisher.send(a_job(queue, number))

    threads = [threading.Thread(target=send, args=(first,)) for first in range(0, 400, 50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    taken = [numbers_in(broker, queue)[0] for _ in range(400)]
    for first in range(0, 400, 50):
        assert [number for number in taken if first <= number < first + 50] == list(range(first, first + 50))


def test_a_send_that_is_interrupted_in_the_middle_costs_no_other_its_confirm(
    link: Link, settings: Settle, broker: Broker, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = link.connection(settings(), "publish")
    publisher = link.publisher(settings(publish_timeout_s=5), connection)
    publisher.send(a_job(queue, 1))

    def interrupted(_frames: bytes) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(connection, "send", interrupted)
        with pytest.raises(KeyboardInterrupt):
            publisher.send(a_job(queue, 2))
    for number in (3, 4):
        publisher.send(a_job(queue, number))
    taken = [numbers_in(broker, queue)[0] for _ in range(broker.depth(names.work_queue("test", queue)))]
    assert {1, 3, 4} <= set(taken)


def numbers_in(broker: Broker, queue: str) -> tuple[Any, ...]:
    """Take the next job off the queue; return its arguments."""
    taken = broker.take(names.work_queue("test", queue))
    assert taken is not None
    return codec.decode(taken[2], Properties()).args


async def a_stuck_send(publisher: Publisher, job: Job) -> None:
    with pytest.raises(PublishTimeout, match="the link thread does not answer"):
        await publisher.asend(job)


def test_an_awaited_send_ends_though_the_link_thread_is_stuck(
    link: Link, settings: Settle, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("smena.amqp.publisher._GRACE_S", 0.1)
    publisher, let_go = link.publisher(settings(publish_timeout_s=0.2)), threading.Event()
    link.thread.post(let_go.wait)
    asyncio.run(a_stuck_send(publisher, a_job(queue)))
    let_go.set()


def test_a_wrong_value_in_an_address_is_a_clear_error(link: Link, settings: Settle) -> None:
    with pytest.raises(Misconfigured, match="Invalid channel_max value") as refused:
        link.connection(settings(urls=(SecretStr("amqp://u:hunter22@localhost/?channel_max=x"),)))
    assert "hunter22" not in str(refused.value)


def test_many_jobs_have_an_outcome_each_in_order(link: Link, settings: Settle, broker: Broker, queue: str) -> None:
    good = [a_job(queue, number) for number in range(1000)]
    bad = [a_job(queue).replace(args=(float("nan"),)), a_job("not*a*name"), a_job(queue).replace(args=("x" * 3000,))]
    jobs = [*good[:500], bad[0], *good[500:], bad[1], bad[2]]
    outcomes = link.publisher(settings(max_body_bytes=2048)).send_many(jobs)
    failed = {place: type(error) for place, error in enumerate(outcomes) if error is not None}
    assert failed == {500: Unsendable, 1001: Misconfigured, 1002: TooLarge}
    assert broker.depth(names.work_queue("test", queue)) == 1000


def test_the_window_bounds_what_is_under_way_and_a_long_list_passes_it(
    link: Link, settings: Settle, broker: Broker, queue: str
) -> None:
    outcomes = link.publisher(settings(publish_window=50)).send_many([a_job(queue, number) for number in range(2000)])
    assert not any(outcomes)
    assert broker.depth(names.work_queue("test", queue)) == 2000


def test_a_coroutine_can_await_its_confirm(link: Link, settings: Settle, broker: Broker, queue: str) -> None:
    publisher = link.publisher(settings())

    async def send() -> None:
        await asyncio.gather(*(publisher.asend(a_job(queue, number)) for number in range(100)))

    asyncio.run(send())
    assert broker.depth(names.work_queue("test", queue)) == 100


def test_p03_a_queue_deleted_under_the_publisher_is_declared_again_and_gets_the_job(
    link: Link, settings: Settle, broker: Broker, queue: str
) -> None:
    publisher = link.publisher(settings())
    publisher.send(a_job(queue))
    broker.channel().queue_delete(names.work_queue("test", queue))
    publisher.send(a_job(queue))
    assert broker.depth(names.work_queue("test", queue)) == 1


def test_p03_a_message_without_a_queue_is_unroutable_and_others_are_not_mistaken_for_it(
    link: Link, settings: Settle, broker: Broker, queue: str
) -> None:
    publisher = link.publisher(settings())
    publisher.send(a_job(queue))
    there = names.work_queue("test", queue)
    outgoings = [
        Outgoing("", f"nowhere.{queue}" if number % 3 == 0 else there, b"{}", Properties()) for number in range(99)
    ]
    outcomes = publisher.publish_and_wait(outgoings)
    assert [type(error) for error in outcomes] == [
        Unroutable if number % 3 == 0 else type(None) for number in range(99)
    ]


def test_a_message_that_closes_the_channel_fails_alone(
    link: Link, settings: Settle, broker: Broker, queue: str
) -> None:
    publisher = link.publisher(settings())
    publisher.send(a_job(queue))
    there = names.work_queue("test", queue)
    outgoings = [Outgoing("", there, b"{}", Properties()) for _ in range(60)]
    outgoings[7] = Outgoing("no.such.exchange", "x", b"{}", Properties())
    outgoings[41] = Outgoing("", there, b"{}", Properties(user_id="somebody else"))
    outcomes = publisher.publish_and_wait(outgoings)
    failed = {place: type(error) for place, error in enumerate(outcomes) if error is not None}
    assert failed == {7: Unroutable, 41: Unsendable}
    assert broker.depth(there) >= 59


def test_p55_a_queue_with_other_arguments_fails_only_its_own_jobs(
    link: Link, settings: Settle, broker: Broker, queue: str
) -> None:
    other = f"{queue}.other"
    broker.doom(names.work_queue("test", other), names.dead_queue("test", other))
    broker.channel().queue_declare(names.work_queue("test", other), durable=True)
    outcomes = link.publisher(settings()).send_many([a_job(queue), a_job(other), a_job(queue)])
    assert [type(error) for error in outcomes] == [type(None), TopologyMismatch, type(None)]
    assert "x-queue-type" in str(outcomes[1]) or "x-dead-letter" in str(outcomes[1])
    assert names.work_queue("test", other) in str(outcomes[1])


def test_a_dead_letter_lies_in_the_dead_queue_with_its_own_bytes(
    link: Link, settings: Settle, broker: Broker, queue: str
) -> None:
    publisher = link.publisher(settings(max_body_bytes=1024))
    death = Death("undecodable", 1_700_000_000_000, error_text="no\0t\udc00 JSON", traceback="t" * 100_000)
    body = b"\xff" * 2000
    letter = publisher.dead_letter(
        queue, body, Properties(expiration="1", headers={"x-death": [], "own": "kept"}), death
    )
    assert publisher.publish_and_wait([letter]) == [None]
    taken = broker.take(names.dead_queue("test", queue))
    assert taken is not None
    assert taken[2] == body
    assert taken[1].expiration is None
    headers = taken[1].headers
    assert (headers["smena-reason"], headers["own"]) == ("undecodable", "kept")
    assert headers["smena-error-text"] == "no\\x00t\\udc00 JSON"
    assert len(headers["smena-traceback"]) <= 16 * 1024
    assert "x-death" not in headers


def test_p04_under_an_alarm_a_send_ends_at_its_deadline_and_stop_does_not_hang(
    link: Link, settings: Settle, broker: Broker, queue: str, services: LocalServices
) -> None:
    connection = link.connection(settings(publish_timeout_s=1), "alarmed")
    publisher = link.publisher(settings(publish_timeout_s=1), connection)
    publisher.send(a_job(queue))
    services.rabbitmq.ctl("set_vm_memory_high_watermark", "0.0001")
    try:
        with pytest.raises((BrokerBlocked, PublishTimeout)):
            publisher.send(a_job(queue))  # the broker tells of its alarm when it is first written to
        eventually(lambda: connection.blocked)
        with pytest.raises(BrokerBlocked):
            publisher.send(a_job(queue))
        began = time.monotonic()
        link.stop()
        assert time.monotonic() - began < 5
    finally:
        services.rabbitmq.ctl("set_vm_memory_high_watermark", "0.4")


def test_p04_what_waits_out_an_alarm_is_confirmed_when_it_ends(
    link: Link, settings: Settle, broker: Broker, queue: str, services: LocalServices
) -> None:
    connection = link.connection(settings(publish_timeout_s=60), "alarmed")
    publisher = link.publisher(settings(publish_timeout_s=60), connection)
    publisher.send(a_job(queue))
    services.rabbitmq.ctl("set_vm_memory_high_watermark", "0.0001")
    outcomes: list[Any] = []
    try:
        publisher.publish([publisher.outgoing_for(a_job(queue))], outcomes.extend)
        eventually(lambda: connection.blocked)
        publisher.publish([publisher.outgoing_for(a_job(queue))], outcomes.extend)
    finally:
        services.rabbitmq.ctl("set_vm_memory_high_watermark", "0.4")
    eventually(lambda: outcomes == [None, None])


def test_without_a_broker_a_send_ends_in_broker_lost(link: Link, settings: Settle, queue: str) -> None:
    nobody = settings(urls=(SecretStr("amqp://guest:guest@127.0.0.1:1"),), publish_timeout_s=0.5)
    publisher = link.publisher(nobody)
    with pytest.raises(BrokerLost):
        publisher.send(a_job(queue))


def test_the_next_address_is_tried_when_one_does_not_answer(
    link: Link, settings: Settle, amqp_url: str, broker: Broker, queue: str
) -> None:
    urls = (SecretStr("amqp://guest:guest@127.0.0.1:1"), SecretStr(amqp_url))
    link.publisher(settings(urls=urls)).send(a_job(queue))
    assert broker.depth(names.work_queue("test", queue)) == 1


def test_the_link_thread_may_not_wait_for_itself(link: Link, settings: Settle, queue: str) -> None:
    publisher = link.publisher(settings())
    caught: list[BaseException] = []
    called = threading.Event()

    def on_link() -> None:
        try:
            publisher.send(a_job(queue))
        except RuntimeError as error:
            caught.append(error)
        called.set()

    link.thread.post(on_link)
    assert called.wait(PATIENCE_S)
    assert len(caught) == 1


def test_a_publisher_carried_over_a_fork_says_so(link: Link, settings: Settle, queue: str) -> None:
    publisher = link.publisher(settings())
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def in_child() -> None:
        try:
            publisher.send(a_job(queue))
        except Misconfigured as error:
            theirs.send(str(error))

    child = context.Process(target=in_child)
    child.start()
    assert ours.poll(10)
    assert "fork" in ours.recv()
    child.join(10)
