"""What a process shows of its connections moves with them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from smena.amqp.outgoing import Outgoing
from smena.amqp.properties import Properties
from smena.errors import Unroutable
from smena.job import Job
from smena.telemetry.tally import Board
from tests.fixtures.eventually import eventually
from tests.integration.link.conftest import Broker, Link, Settle
from workers.local.services import LocalServices
from workers.process.link_figures import count_links


@pytest.fixture
def board() -> Iterator[Board]:
    board = Board()
    end = count_links(board)
    yield board
    end()


def a_job(queue: str) -> Job:
    return Job(actor="shop.sell", queue=queue, timestamp_ms=int(time.time() * 1000))


def test_an_alarm_shows_for_as_long_as_it_lasts(
    link: Link, settings: Settle, queue: str, services: LocalServices, board: Board
) -> None:
    def blocked() -> Any:
        return board.snapshot()["gauges"]["smena_blocked"].get("worker-0 publish")

    publisher = link.publisher(settings(publish_timeout_s=60), link.connection(settings(), "worker-0 publish"))
    publisher.send(a_job(queue))
    assert blocked() == 0.0
    outcomes: list[Any] = []
    services.rabbitmq.ctl("set_vm_memory_high_watermark", "0.0001")
    try:
        publisher.publish([publisher.outgoing_for(a_job(queue))], outcomes.extend)
        eventually(lambda: blocked() == 1.0)
    finally:
        services.rabbitmq.ctl("set_vm_memory_high_watermark", "0.4")
    eventually(lambda: blocked() == 0.0)
    eventually(lambda: outcomes == [None])


def test_messages_are_counted_by_what_came_of_them(link: Link, settings: Settle, queue: str, broker: Broker) -> None:
    publisher = link.publisher(settings())
    astray = Outgoing("", "nobody's", b"{}", Properties(message_id="1"))
    jobs = [publisher.outgoing_for(a_job(queue)) for _ in range(3)]
    assert publisher.results() == {}
    assert [type(error) for error in publisher.publish_and_wait([*jobs, astray])] == [type(None)] * 3 + [Unroutable]
    assert publisher.results() == {"confirmed": 3, "unroutable": 1}
