"""Look into the broker's queues from outside, with bare pika: what is there, and whether it is all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

_QUIET_S = 1.0


def is_settled(url: str, queue: str) -> bool:
    """Say whether a queue holds nothing, neither ready nor in a consumer's hands."""
    with _channel(url) as channel:
        try:
            found = channel.queue_declare(queue, passive=True).method
        except ChannelClosedByBroker:
            return True
        # Without a consumer there is no unacked message either: they came back when it was cancelled.
        return bool(found.message_count == 0 and found.consumer_count == 0)


def is_taken(url: str, queue: str) -> bool:
    """Say whether nothing in a queue waits to be taken; some may be in consumers' hands."""
    with _channel(url) as channel:
        try:
            return bool(channel.queue_declare(queue, passive=True).method.message_count == 0)
        except ChannelClosedByBroker:
            return True


def purge(url: str, queue: str) -> None:
    """Empty a queue if it exists."""
    with _channel(url) as channel:
        try:
            channel.queue_purge(queue)
        except ChannelClosedByBroker:
            return


def delete(url: str, queue: str) -> None:
    """Delete a queue if it exists."""
    with _channel(url) as channel:
        channel.queue_delete(queue)


def take_all(url: str, queue: str) -> list[int]:
    """Take everything out of a queue; return the numbers of its jobs, second copies too."""
    taken: list[int] = []
    with _channel(url) as channel:
        channel.basic_qos(prefetch_count=1000)
        tag = 0
        for method, _, body in channel.consume(queue, inactivity_timeout=_QUIET_S):
            if method is None:
                break
            taken.append(job_of(body))
            tag = method.delivery_tag
            if len(taken) % 500 == 0:
                channel.basic_ack(tag, multiple=True)
        if tag and len(taken) % 500:
            channel.basic_ack(tag, multiple=True)
        channel.cancel()
    return taken


def job_of(body: bytes) -> int:
    """Return the number of the job in a message of any of the systems."""
    message: Any = json.loads(body)
    if isinstance(message, list):
        return int(message[0][0])  # Celery
    if isinstance(message, dict):
        return int(message["job"] if "job" in message else message["args"][0])
    return int(message)


@contextmanager
def _channel(url: str) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(url))
    try:
        yield connection.channel()
    finally:
        connection.close()
