"""A channel that a living broker answers wrongly, or not at all, is not used for ever; seen after a node's death."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from pydantic import SecretStr

from smena.amqp import names
from smena.errors import PublishRefused, PublishTimeout
from smena.job import Job
from tests.fixtures.eventually import eventually
from tests.fixtures.fix_proxy import Proxied
from tests.integration.link.conftest import Broker, Link, Settle
from workers.drills.tcp_proxy import Way

_CONFIRM = re.compile(rb"(\x01..\x00\x00\x00\x0d\x00\x3c\x00)\x50(.{9}\xce)", re.DOTALL)
_CLOSE_OK = re.compile(rb"\x01..\x00\x00\x00\x04\x00\x14\x00\x29\xce", re.DOTALL)
_SELECT_OK = b"\x00\x55\x00\x0b\xce"
_OPEN_OK = b"\x00\x0a\x00\x29"


class Spoilt:
    """Spoil the confirms of the first so many publishing channels; count channels and connections."""

    def __init__(self, spoil: Callable[[bytes], bytes], channels: int = 1) -> None:
        self.channels = self.connections = 0
        self._spoil, self._first = spoil, channels

    def __call__(self, data: bytes) -> bytes:
        self.connections += data.count(_OPEN_OK)
        self.channels += data.count(_SELECT_OK)
        return self._spoil(data) if self.channels <= self._first else data


def turned_into_nacks(data: bytes) -> bytes:
    return _CONFIRM.sub(lambda found: found[1] + b"\x78" + found[2], data)


def kept_back(data: bytes) -> bytes:
    return _CONFIRM.sub(b"", data)


class FirstKeptBack:
    """Keep one confirm back, and let all others through."""

    def __init__(self) -> None:
        self.found = False

    def __call__(self, data: bytes) -> bytes:
        if self.found or not _CONFIRM.search(data):
            return data
        self.found = True
        return kept_back(data)


class Stale:
    """Turn the first confirm into a nack, and put it, as it was, in the place of all others; hide each `close-ok`."""

    def __init__(self) -> None:
        self._first = b""

    def __call__(self, data: bytes) -> bytes:
        data = _CLOSE_OK.sub(b"", data)
        if self._first:
            return _CONFIRM.sub(lambda _found: self._first, data)
        found = _CONFIRM.search(data)
        self._first = found[0] if found else b""
        return turned_into_nacks(data)


def a_job(queue: str, number: int = 1) -> Job:
    return Job(actor="a.b", queue=queue, args=(number,), timestamp_ms=1)


def test_a_channel_that_nacks_everything_is_replaced_and_its_message_sent_again(
    link: Link, settings: Settle, amqp_url: str, queue: str, proxied: Callable[[str], Proxied]
) -> None:
    proxy, url = proxied(amqp_url)
    spoilt = Spoilt(turned_into_nacks)
    proxy.alter(Way.TO_CLIENT, spoilt)
    publisher = link.publisher(settings(urls=(SecretStr(url),)))
    publisher.send(a_job(queue))
    publisher.send(a_job(queue, 2))
    assert (spoilt.channels, spoilt.connections) == (2, 1)


def test_what_a_channel_answers_after_it_was_given_up_confirms_nothing(
    link: Link, settings: Settle, amqp_url: str, queue: str, proxied: Callable[[str], Proxied]
) -> None:
    proxy, url = proxied(amqp_url)
    proxy.alter(Way.TO_CLIENT, Stale())
    publisher = link.publisher(settings(urls=(SecretStr(url),), publish_timeout_s=1))
    with pytest.raises(PublishTimeout):
        publisher.send(a_job(queue))


def test_a_queue_that_refuses_everything_is_told_and_does_not_cost_a_channel_each_time(
    link: Link, settings: Settle, amqp_url: str, queue: str, proxied: Callable[[str], Proxied]
) -> None:
    proxy, url = proxied(amqp_url)
    spoilt = Spoilt(turned_into_nacks, channels=1000)
    proxy.alter(Way.TO_CLIENT, spoilt)
    publisher = link.publisher(settings(urls=(SecretStr(url),)))
    for number in range(20):
        with pytest.raises(PublishRefused):
            publisher.send(a_job(queue, number))
    assert spoilt.channels < 10


def test_a_connection_on_which_no_publish_is_answered_is_dropped(
    link: Link, settings: Settle, amqp_url: str, broker: Broker, queue: str, proxied: Callable[[str], Proxied]
) -> None:
    proxy, url = proxied(amqp_url)
    spoilt = Spoilt(kept_back)
    proxy.alter(Way.TO_CLIENT, spoilt)
    publisher = link.publisher(settings(urls=(SecretStr(url),), publish_timeout_s=1))

    def dropped() -> bool:
        outcomes = publisher.send_many([a_job(queue)])  # on a busy machine the first may not be sent in time
        return outcomes == [None] and spoilt.connections > 1

    eventually(dropped)
    assert broker.depth(names.work_queue("test", queue)) > 1


def test_a_channel_that_answers_others_and_not_one_is_replaced_without_its_connection(
    link: Link, settings: Settle, amqp_url: str, queue: str, proxied: Callable[[str], Proxied]
) -> None:
    proxy, url = proxied(amqp_url)
    first = FirstKeptBack()
    spoilt = Spoilt(first)
    proxy.alter(Way.TO_CLIENT, spoilt)
    link.publisher(settings()).send(a_job(queue, 0))  # declares the queue, which may take its time
    publisher = link.publisher(settings(urls=(SecretStr(url),), publish_timeout_s=3))
    outcomes: list[object] = []
    publisher.publish([publisher.outgoing_for(a_job(queue))], outcomes.extend)
    eventually(lambda: first.found)  # else one confirm may stand for several messages
    number = 1
    while not outcomes:
        number += 1
        publisher.send(a_job(queue, number))
    assert isinstance(outcomes[0], PublishTimeout)
    eventually(lambda: spoilt.channels == 2)
    publisher.send(a_job(queue, number + 1))
    assert spoilt.connections == 1
