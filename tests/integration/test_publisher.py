"""The publisher accepts each line once and in order, each invoice with its charge, and sends every twentieth twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import pika
import psycopg
import pytest
from pika.exceptions import ChannelClosedByBroker

from examples.shop.make_retail import Maker
from examples.shop.publisher import STOCK_PARTITIONS
from smena.amqp import names
from smena.keyspace import partition_of
from smena.store import migrations
from tests.fixtures.eventually import PATIENCE_S, eventually

Publisher = Callable[[Path], Any]
NOT_FOUND = 404
STOCK = [names.address("stock", partition) for partition in range(STOCK_PARTITIONS)]


@pytest.fixture
def shop(empty_database_url: str) -> Iterator[psycopg.Connection[Any]]:
    migrations.upgrade(empty_database_url, ["actors:migrations"])
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def broker(amqp_url: str, unique: str) -> Iterator[Any]:
    connection = pika.BlockingConnection(pika.URLParameters(amqp_url))
    yield connection
    fresh = connection.channel()
    for queue in ("sales", "payments", "mail", "stock"):
        fresh.queue_delete(names.dead_queue(unique, queue))
    for queue in ("sales", "payments", "mail", *STOCK):
        fresh.queue_delete(names.work_queue(unique, queue))
    connection.close()


@pytest.fixture
def publisher(empty_database_url: str, amqp_url: str, unique: str) -> Publisher:
    env = {
        **os.environ,
        "SMENA_DATABASE_URL": empty_database_url,
        "SMENA_AMQP_URL": amqp_url,
        "SMENA_AMQP_PREFIX": unique,
    }

    @contextmanager
    def publishing(file: Path) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(
            [sys.executable, "-m", "examples.shop.publisher", file],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        )
        try:
            yield process
        finally:
            ended(process)

    return publishing


def ended(process: subprocess.Popen[str]) -> str:
    """Close its input and wait for its end; return what it complained of. It is killed if it does not end."""
    try:
        return process.communicate(timeout=PATIENCE_S)[1]
    finally:
        process.kill()
        process.communicate()


def published(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    for line in process.stdout:
        progress: dict[str, Any] = json.loads(line)
        if progress["published"]:
            return progress
    raise AssertionError(ended(process))


def take(broker: Any, queue: str, count: int) -> list[dict[str, Any]]:
    """Take that many messages off a queue, and see that there are no more."""
    channel = broker.channel()

    def one() -> dict[str, Any] | None:
        nonlocal channel
        try:
            _, properties, body = channel.basic_get(queue, auto_ack=True)
        except ChannelClosedByBroker as closed:
            channel = broker.channel()
            if closed.reply_code != NOT_FOUND:
                raise
            return None  # the queue is not there yet
        return None if body is None else {**json.loads(body), "id": properties.message_id}

    messages = [eventually(one) for _ in range(count)]
    assert one() is None
    channel.close()
    return [message for message in messages if message is not None]


def in_order(broker: Any, queue: str, count: int) -> list[dict[str, Any]]:
    """Take that many moves off a partition; it gives its messages to one consumer alone, and to nobody who asks."""
    channel = broker.channel()
    arriving = channel.consume(queue, auto_ack=True, inactivity_timeout=PATIENCE_S)
    bodies = [body for _, _, body in islice(arriving, count)]
    channel.cancel()
    channel.close()
    return [json.loads(body)["args"][0] for body in bodies]


def test_a_file_is_published_whole(
    shop: psycopg.Connection[Any], broker: Any, publisher: Publisher, unique: str, tmp_path: Path
) -> None:
    file = tmp_path / "sales.csv"
    file.write_text(Maker(seed=3).text(400), encoding="utf-8")
    with publisher(file) as process:
        progress = published(process)
        lines, orders = progress["lines"], progress["orders"]
        assert lines + progress["rejected"] == 400

        messages = take(broker, names.work_queue(unique, "sales"), lines + lines // 20)
        times = Counter(message["id"] for message in messages)
        assert len(times) == lines
        assert Counter(times.values()) == {1: lines - lines // 20, 2: lines // 20}
        assert {message["actor_name"] for message in messages} == {"sales.record"}
        assert set(messages[0]["args"][0]) == {"number", "invoice", "stock_code", "quantity", "unit_price"}

        every = sorted((message["args"][0] for message in messages), key=lambda line: line["number"])
        for partition, queue in enumerate(STOCK):
            of_partition = [line for line in every if partition_of(line["stock_code"], STOCK_PARTITIONS) == partition]
            moves = in_order(broker, names.work_queue(unique, queue), len(of_partition))
            assert [(move["line"], move["stock_code"], move["quantity"]) for move in moves] == [
                (line["number"], line["stock_code"], line["quantity"]) for line in of_partition
            ], "in the file's order"

        sold = {message["id"]: message["args"][0] for message in messages}.values()
        amount = sum(line["quantity"] * Decimal(line["unit_price"]) for line in sold)
        assert shop.execute("SELECT sum(lines), sum(amount), count(*) FROM shop.orders").fetchone() == (
            lines,
            amount,
            orders,
        )
        invoices = [row[0] for row in shop.execute("SELECT invoice FROM shop.orders").fetchall()]
        rows = shop.execute("SELECT id, body FROM smena.outbox WHERE actor = 'payments.charge'").fetchall()
        assert sorted(json.loads(body)["args"][0] for _, body in rows) == sorted(invoices)

        shop.execute("UPDATE smena.outbox SET state = 'sent'")  # as the relay does
        copies = take(broker, names.work_queue(unique, "payments"), orders // 20)
        assert {copy["id"] for copy in copies} <= {job_id for job_id, _ in rows}


def test_a_second_run_places_no_order_twice(
    shop: psycopg.Connection[Any], broker: Any, publisher: Publisher, unique: str, tmp_path: Path
) -> None:
    file = tmp_path / "sales.csv"
    file.write_text(Maker(seed=4).text(60), encoding="utf-8")
    with publisher(file) as process:
        first = published(process)
    with publisher(file) as process:
        second = published(process)
    assert first["orders"] > 0
    assert (second["lines"], second["orders"]) == (first["lines"], 0)
    assert shop.execute("SELECT count(*) FROM smena.outbox").fetchone() == (first["orders"],)
    lines = first["lines"]
    take(broker, names.work_queue(unique, "sales"), 2 * (lines + lines // 20))


def test_an_unreadable_file_is_one_sentence_and_nothing_is_sent(publisher: Publisher, tmp_path: Path) -> None:
    with publisher(tmp_path / "gone.csv") as process:
        complaint = ended(process)
    assert process.returncode == 2
    assert "there is no such file" in complaint
    assert len(complaint.splitlines()) == 1
