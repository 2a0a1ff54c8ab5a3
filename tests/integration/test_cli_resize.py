"""`smena partition resize` changes the number of partitions only where that loses and reorders nothing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from sharding import members, plans
from smena.amqp import names
from smena.amqp.arguments import work_queue
from smena.settings.groups import Amqp
from tests.fixtures.fix_broker import BrokerView
from workers.cli import main


@pytest.fixture(autouse=True)
def _group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, amqp: Amqp, broker: BrokerView, database_url: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for variable in [name for name in os.environ if name.startswith("SMENA_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("SMENA_DATABASE_URL", database_url)
    monkeypatch.setenv("SMENA_AMQP_URL", amqp.urls[0].get_secret_value())
    monkeypatch.setenv("SMENA_AMQP_PREFIX", amqp.prefix)
    broker.knows(names.address("stock", 1))
    with psycopg.connect(database_url) as connection:
        plans.begin(connection, "stock", 4)


def resize(count: int) -> tuple[int, str]:
    ended = CliRunner().invoke(main, ["partition", "resize", "stock", str(count)])
    return ended.exit_code, ended.output


def test_an_empty_group_that_nobody_works_gets_another_number(database_url: str) -> None:
    assert resize(8) == (0, "stock has 8 partitions, and had 4; start workers and senders that declare them\n")
    with psycopg.connect(database_url) as connection:
        (plan,) = plans.groups(connection)
    assert len(plan.owners) == 8


def test_nothing_is_changed_while_a_message_lies_in_a_partition(broker: BrokerView) -> None:
    for queue in work_queue(broker.prefix, "stock.p01"):
        broker.channel.queue_declare(queue.name, durable=True, arguments=dict(queue.arguments))  # type: ignore[union-attr]
    broker.channel.confirm_delivery()
    broker.put("", names.work_queue(broker.prefix, "stock.p01"), b"{}")
    status, told = resize(8)
    assert status == 1
    assert "keeps its 4 partitions, for there are 1 messages" in told
    with broker.another() as channel:  # as a worker that is frozen has it
        next(channel.consume(names.work_queue(broker.prefix, "stock.p01")))
        status, told = resize(8)
    assert status == 1
    assert "keeps its 4 partitions, for there are 1 consumers" in told


def test_nothing_is_changed_while_rows_wait(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "INSERT INTO smena.outbox (id, actor, queue, body, properties) VALUES ('j', 'a.b', 'stock.p01', '', '{}')"
        )
        connection.execute(
            "INSERT INTO smena.key_holds (queue, key, partition, why, reason, job_id, actor, attempt)"
            " VALUES ('stock', 'k', 1, 'blocked', 'bad', 'j', 'a.b', 1)"
        )
    status, told = resize(8)
    assert status == 1
    assert "1 held keys, 1 outbox rows" in told


def test_nothing_is_changed_while_somebody_works_it(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        members.beat(connection, "stock", "someone", "worker-0", 60)
    status, told = resize(2)
    assert (status, "stop them first" in told) == (1, True)


def test_nothing_is_changed_just_after_a_worker_fell_silent_whose_messages_may_come_back(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        members.beat(connection, "stock", "someone", "worker-0", -1)
    status, told = resize(2)
    assert (status, "a moment ago" in told) == (1, True)
    with psycopg.connect(database_url) as connection:
        members.beat(connection, "stock", "someone", "worker-0", -3600)
    assert resize(2)[0] == 0
