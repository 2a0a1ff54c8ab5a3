"""What is sent to a partition lies there in the order of its sending, whatever happens to the connection."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from pydantic import SecretStr

from smena.amqp import codec, names
from smena.amqp.outgoing import Outcomes
from smena.errors import OrderBroken, Unroutable, Unsendable
from smena.job import Job
from smena.telemetry import events
from smena.telemetry.event import Occurrence
from tests.fixtures.eventually import eventually
from tests.fixtures.fix_proxy import Proxied
from tests.integration.link.conftest import Broker, Link, Settle


def jobs(queue: str, numbers: range, partition: int = 3) -> list[Job]:
    given: dict[str, Any] = {"partition_key": "k", "partition": partition}
    return [Job(actor="a.b", queue=queue, args=(number,), timestamp_ms=1, **given) for number in numbers]


@pytest.fixture
def partition(broker: Broker, queue: str) -> str:
    name = names.work_queue("test", names.address(queue, 3))
    broker.doom(name)
    return name


@pytest.mark.parametrize("seed", range(2))
def test_first_copies_keep_the_order_of_sending_through_lost_connections(
    seed: int,
    link: Link,
    settings: Settle,
    amqp_url: str,
    broker: Broker,
    queue: str,
    partition: str,
    proxied: Callable[[str], Proxied],
) -> None:
    proxy, url = proxied(amqp_url)
    publisher = link.publisher(settings(urls=(SecretStr(url),), publish_timeout_s=60, reconnect_cap_s=0.2))
    sent = jobs(queue, range(3000))
    draw = random.Random(seed)
    with ThreadPoolExecutor(1, "sender") as sender:
        outcomes = sender.submit(publisher.send_many, sent)
        for _ in range(5):
            proxy.cut()
            eventually(lambda: outcomes.done() or draw.random() < 0.2, pause_s=0.005)
    assert outcomes.result() == [None] * len(sent)
    assert list(dict.fromkeys(numbers_in(broker, partition))) == list(range(3000))


def test_nothing_overtakes_what_waits_for_its_queue_to_be_declared(
    link: Link, settings: Settle, broker: Broker, queue: str, partition: str
) -> None:
    publisher = link.publisher(settings())
    lane = publisher._lane
    later: list[Future[Outcomes]] = []

    def send_more(declared: Occurrence) -> None:
        """Send more from another thread when the queue is known and the first has not been told of it."""
        if declared.fields["queue"] == partition and not later:
            later.append(sender.submit(publisher.send_many, jobs(queue, range(1, 4))))
            eventually(lambda: len(lane._unconfirmed) + sum(map(len, lane._declaring.values())) == 4)

    unsubscribe = events.subscribe(send_more, only=[events.TOPOLOGY_DECLARED])
    try:
        with ThreadPoolExecutor(1, "sender") as sender:
            assert publisher.send_many(jobs(queue, range(1))) == [None]
            assert later[0].result() == [None] * 3
    finally:
        unsubscribe()
    assert numbers_in(broker, partition) == [0, 1, 2, 3]


def test_what_stands_behind_a_message_that_was_not_taken_is_not_sent(
    link: Link, settings: Settle, broker: Broker, queue: str, partition: str
) -> None:
    publisher = link.publisher(settings())
    assert publisher.send_many(jobs(queue, range(1))) == [None]
    broker.channel().queue_delete(partition)
    other = Job(actor="a.b", queue=queue, args=(0,), timestamp_ms=1)

    outcomes = publisher.send_many([*jobs(queue, range(500)), other])

    assert isinstance(outcomes[0], Unroutable)
    assert {type(outcome) for outcome in outcomes[1:500]} == {OrderBroken}
    assert outcomes[500] is None
    assert publisher.send_many(jobs(queue, range(500))) == [None] * 500  # from the first on, and all is well
    assert numbers_in(broker, partition) == list(range(500))


def test_an_ordered_job_is_never_delayed(link: Link, settings: Settle, queue: str) -> None:
    with pytest.raises(Unsendable, match="cannot be delayed"):
        link.publisher(settings()).send(jobs(queue, range(1))[0], delay_s=1)


def numbers_in(broker: Broker, queue: str) -> list[int]:
    """Take all that is there as a consumer: such a queue answers no `basic.get`."""
    channel, numbers = broker.channel(), []
    depth = broker.depth(queue)
    for method, _properties, body in channel.consume(queue, auto_ack=True):
        assert method is not None
        numbers.append(codec._decoder.decode(body).args[0])
        if len(numbers) == depth:
            break
    channel.close()
    return numbers
