"""`smena partition resize` changes the number of partitions only where that loses and reorders nothing."""

from __future__ import annotations

import psycopg
import pytest
from click.testing import CliRunner

from sharding import members, plans
from smena.amqp import names
from smena.amqp.arguments import work_queue
from tests.fixtures.fix_broker import BrokerView
from tests.fixtures.fix_shell import Shell
from workers.cli import main


@pytest.fixture(autouse=True)
def _group(shell: Shell, amqp_url: str, broker: BrokerView, database_url: str) -> None:
    shell.set(database_url=database_url, amqp_url=amqp_url, amqp_prefix=broker.prefix)
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


def put(broker: BrokerView, partition: str) -> None:
    for queue in work_queue(broker.prefix, partition):
        broker.channel.queue_declare(queue.name, durable=True, arguments=dict(queue.arguments))  # type: ignore[union-attr]
    broker.channel.confirm_delivery()
    broker.put("", names.work_queue(broker.prefix, partition), b"{}")


def doctor() -> tuple[int, str]:
    ended = CliRunner().invoke(main, ["doctor"])
    return ended.exit_code, ended.stdout


def test_the_number_that_it_has_is_no_change() -> None:
    assert resize(4) == (0, "stock has 4 partitions already\n")


def test_what_was_sent_to_partitions_that_are_no_more_is_told_of_and_worked_when_they_are_again(
    broker: BrokerView,
) -> None:
    broker.knows(names.address("stock", 5))
    assert resize(8)[0] == resize(4)[0] == 0
    assert doctor() == (0, "nothing to complain of\n")
    put(broker, "stock.p05")  # by a sender that has missed it
    status, told = doctor()
    assert (status, f"nobody works 1 in {broker.prefix}.stock.p05" in told, "resize stock 8" in told) == (1, True, True)
    left = f"keeps its 4 partitions, for something is left: 1 message in {broker.prefix}.stock.p05\n"
    assert left in resize(2)[1]
    assert left in resize(5)[1]
    assert resize(8)[0] == 0
    assert doctor() == (0, "nothing to complain of\n")


def test_what_was_sent_to_partitions_that_never_were_is_told_of_and_worked_with_the_senders_number(
    broker: BrokerView,
) -> None:
    broker.knows(*(names.address("stock", number) for number in (5, 7)))
    put(broker, "stock.p05")
    for _ in range(2):
        put(broker, "stock.p07")  # by a sender that declares 8
    status, told = doctor()
    assert (status, f"nobody works 1 in {broker.prefix}.stock.p05, 2 in {broker.prefix}.stock.p07" in told) == (1, True)
    assert "give all senders 4 " in told
    assert "is that of those senders, at least 8: once" in told
    # With 6 what lies in p05 would be worked, though the sender's 8 put it there: not where its key belongs
    assert f"for something is left: 2 messages in {broker.prefix}.stock.p07\n" in resize(6)[1]
    assert resize(8)[0] == 0
    assert doctor() == (0, "nothing to complain of\n")


def test_the_doctor_tells_of_partitions_without_an_owner_where_there_are_members(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        members.beat(connection, "stock", 4, "one", "worker-0", 60)
        view = plans.look(connection, "stock")
        assert view is not None
        plans.settle(connection, view)
    assert doctor() == (0, "nothing to complain of\n")  # it was planned just now
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE smena.partition_groups SET planned_at = now() - interval '1 h'")
    status, told = doctor()
    assert (status, "4 of the 4 partitions of stock have no owner, though it has 1 member" in told) == (1, True)


def test_the_doctor_tells_of_messages_in_a_group_that_has_had_no_member_for_long(
    broker: BrokerView, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.broker.depths._AT_ONCE", 2)  # as if there were hundreds
    broker.knows(names.address("stock", 3))
    put(broker, "stock.p01")
    put(broker, "stock.p03")
    assert doctor() == (0, "nothing to complain of\n")  # it has begun just now
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE smena.partition_groups SET planned_at = now() - interval '1 h'")
        members.beat(connection, "stock", 4, "one", "worker-0", -1)
    assert doctor() == (0, "nothing to complain of\n")  # its last member died just now
    with psycopg.connect(database_url) as connection:
        members.beat(connection, "stock", 4, "one", "worker-0", -3600)
        members.beat(connection, "stock", 8, "another", "worker-1", 60)
    status, told = doctor()
    assert (status, "2 messages wait in the partitions of stock, and no worker is a member" in told) == (1, True)
    assert "start workers that declare 4 partitions" in told


def test_nothing_is_changed_while_a_message_lies_in_a_partition(broker: BrokerView) -> None:
    put(broker, "stock.p01")
    status, told = resize(8)
    assert status == 1
    assert f"keeps its 4 partitions, for something is left: 1 message in {broker.prefix}.stock.p01\n" in told
    with broker.another() as channel:  # as a worker that is frozen has it
        next(channel.consume(names.work_queue(broker.prefix, "stock.p01")))
        status, told = resize(8)
    assert status == 1
    assert f"keeps its 4 partitions, for something is left: 1 consumer of {broker.prefix}.stock.p01\n" in told


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
    assert "1 held key of stock, 1 outbox row of stock\n" in told


def test_nothing_is_changed_while_somebody_works_it(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        members.beat(connection, "stock", 4, "someone", "worker-0", 60)
    status, told = resize(2)
    assert (status, "stop them first" in told) == (1, True)


def test_nothing_is_changed_just_after_a_worker_fell_silent_whose_messages_may_come_back(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        members.beat(connection, "stock", 4, "someone", "worker-0", -1)
    status, told = resize(2)
    assert (status, "a moment ago" in told) == (1, True)
    with psycopg.connect(database_url) as connection:
        members.beat(connection, "stock", 4, "someone", "worker-0", -3600)
    assert resize(2)[0] == 0
