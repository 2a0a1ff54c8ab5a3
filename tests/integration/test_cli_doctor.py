"""`smena doctor` tells of accepted work that nobody does, and of nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta

import psycopg
import pytest
from click.testing import CliRunner, Result
from pydantic import SecretStr

import smena
from sharding import plans
from smena.amqp import names
from smena.amqp.arguments import Queue, lost, work_queue
from smena.records import schedules
from smena.records.schedules import Wanted
from smena.settings.groups import Database as DatabaseSettings
from smena.store.database import Database
from tests.fixtures.fix_broker import BrokerView
from tests.fixtures.fix_shell import Shell
from workers.cli import main, unserved_queues
from workers.local.services import LocalServices

WELL = "nothing to complain of\n"
LEASE_S = 600
SHORT_S = LEASE_S // 2
LONG_S = 2 * LEASE_S


@pytest.fixture(autouse=True)
def _settings(shell: Shell, amqp_url: str, broker: BrokerView, database_url: str) -> None:
    shell.set(database_url=database_url, amqp_url=amqp_url, amqp_prefix=broker.prefix, worker_queues="payments")
    shell.set(outbox_lease_s=str(LEASE_S), leadership_lease_s=str(LEASE_S))
    broker.knows("payments")


@pytest.fixture
def management(services: LocalServices) -> str:
    """Give the management API of the broker, with a login."""
    return services.env()["SMENA_AMQP_MANAGEMENT_URL"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["doctor", *arguments])


def complaints(*arguments: str) -> list[dict[str, str]]:
    ended = run("--json", *arguments)
    assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.output
    told: list[dict[str, str]] = json.loads(ended.stdout)
    assert ended.exit_code == bool(told)
    return told


def put(broker: BrokerView, place: str, on_broker: Callable[[str, str], str] = names.work_queue) -> str:
    """Declare a queue as a sender does, and put a message there; return the name of where it lies."""
    for queue in work_queue(broker.prefix, place):
        broker.channel.queue_declare(queue.name, durable=True, arguments=dict(queue.arguments))  # type: ignore[union-attr]
    broker.channel.confirm_delivery()
    broker.put("", on_broker(broker.prefix, place), b"{}")
    return on_broker(broker.prefix, place)


def test_a_message_without_a_consumer_is_told_of(broker: BrokerView) -> None:
    assert run().stdout == WELL
    queue = put(broker, "payments")
    (told,) = complaints()
    assert (told["about"], told["found"]) == ("queue", f"{queue} holds 1 message, and has no consumer")
    assert "start workers that take payments" in told["do"]


def test_a_message_that_waits_behind_a_busy_consumer_is_none_of_its_business(broker: BrokerView) -> None:
    queue = put(broker, "payments")
    with broker.another() as channel:
        channel.basic_qos(prefetch_count=1)
        next(channel.consume(queue))
        put(broker, "payments")
        assert run().stdout == WELL


def test_a_queue_between_two_consumers_is_none_of_its_business(
    broker: BrokerView, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = put(broker, "payments")
    with broker.another() as channel:
        channel.basic_qos(prefetch_count=1)

        def subscribe(_for_s: float) -> None:
            next(channel.consume(queue))
            put(broker, "payments")  # one more, which waits

        monkeypatch.setattr(unserved_queues, "sleep", subscribe)
        assert run().stdout == WELL


def test_a_mistyped_queue_is_found_where_the_management_api_answers(
    broker: BrokerView, management: str, shell: Shell
) -> None:
    broker.knows("paymentz")
    with smena.connect():
        smena.by_name("payments.charge", queue="paymentz").send(1)
    (told,) = complaints("--management", management)
    assert f"{broker.prefix}.paymentz holds 1 message" in told["found"]
    assert "no book that is loaded here has paymentz" in told["do"]
    shell.set(amqp_management_url=management)  # as in a shell with the private services
    assert complaints() == [told]


def test_without_the_management_api_it_says_what_it_could_not_see(broker: BrokerView) -> None:
    put(broker, "payments")
    ended = run("--management", "http://guest:secret@127.0.0.1:1")
    assert (ended.exit_code, "holds 1 message" in ended.stdout) == (1, True)
    assert "no management API answers at 127.0.0.1:1" in ended.stderr
    assert "secret" not in ended.stderr


def test_letters_and_the_lost_without_an_archivist_are_told_of(broker: BrokerView) -> None:
    put(broker, "payments", names.dead_queue)
    for one in lost(broker.prefix):
        if isinstance(one, Queue):
            broker.channel.queue_declare(one.name, durable=True, arguments=dict(one.arguments))
    broker.put("", names.lost_queue(broker.prefix), b"{}")
    told = complaints()
    assert [one["about"] for one in told] == ["dead letters", "lost messages"]
    assert all("start an archivist" in one["do"] for one in told)


def test_partitions_of_a_group_are_left_to_what_is_said_of_the_group(
    broker: BrokerView, database_url: str, management: str
) -> None:
    broker.knows("stock", names.address("stock", 1))
    put(broker, "stock.p01")
    (told,) = complaints("--management", management)
    assert f"{broker.prefix}.stock.p01 holds 1 message" in told["found"]  # no worker has ever joined
    with psycopg.connect(database_url) as connection:
        plans.begin(connection, "stock", 4)
    assert complaints("--management", management) == []


@pytest.mark.parametrize("partition", [7, 100])
def test_a_sender_with_more_partitions_than_the_group_has_is_told_the_groups_number(
    broker: BrokerView, database_url: str, management: str, partition: int
) -> None:
    place = names.address("stock", partition)
    broker.knows("stock", place)
    with psycopg.connect(database_url) as connection:
        plans.begin(connection, "stock", 4)
    queue = put(broker, place)
    (told,) = complaints("--management", management)
    assert told["about"] == "partitions"
    assert told["found"] == f"stock has 4 partitions, and senders that declare more: nobody works 1 in {queue}"
    assert told["do"].startswith("give all senders 4 ")


def hold(database_url: str, key: str, why: str, jobs: int, *, ago_s: int, released: bool = False) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "INSERT INTO smena.key_holds"
            " (queue, key, partition, why, reason, job_id, actor, attempt, held_at, released)"
            " VALUES ('stock', %(key)s, 1, %(why)s, 'bad', %(key)s || '-1', 'a.b', 1,"
            " now() - %(ago_s)s * interval '1 s', %(released)s)",
            {"key": key, "why": why, "ago_s": ago_s, "released": released},
        )
        connection.execute(
            "INSERT INTO smena.key_parked (queue, partition, key, job_id, actor, attempt, snoozes, body, properties)"
            " SELECT 'stock', 1, %(key)s, %(key)s || '-' || n, 'a.b', 1, 0, '', '{}'"
            " FROM generate_series(1, %(jobs)s) AS n",
            {"key": key, "jobs": jobs},
        )


def test_keys_that_a_dead_job_blocks_are_told_of_with_the_oldest_and_what_waits(database_url: str) -> None:
    hold(database_url, "retries", "retry", 9, ago_s=900)
    hold(database_url, "goes on", "blocked", 2, ago_s=800, released=True)
    assert run().stdout == WELL
    hold(database_url, "S 3", "blocked", 4, ago_s=600)
    (told,) = complaints()
    assert (told["about"], "stock: 1 key is blocked by a dead job, S 3 since 20" in told["found"]) == (
        "blocked keys",
        True,
    )
    assert told["found"].endswith("Z; 3 jobs wait behind")
    assert "`smena partition release stock 'S 3'` tries the job again" in told["do"]
    hold(database_url, "A", "blocked", 2, ago_s=60)
    (told,) = complaints()
    assert "stock: 2 keys are blocked by a dead job, the longest S 3 since 20" in told["found"]
    assert told["found"].endswith("Z; 4 jobs wait behind")


INSERT = (
    "INSERT INTO smena.outbox (id, actor, queue, body, properties, due_at, state, lease_until, sent_at, error)"
    " VALUES (%(id)s, 'payments.charge', 'payments', '', '{}', now() - %(age)s * interval '1 s', %(state)s,"
    " now() + %(left)s * interval '1 s', now(), %(error)s)"
)


def add_row(database_url: str, **values: object) -> None:
    row = {"id": "first", "age": 0, "state": "pending", "left": None, "error": None} | values
    with psycopg.connect(database_url) as connection:
        connection.execute(INSERT, row)


def test_rows_that_are_due_and_that_no_relay_takes_are_told_of(database_url: str) -> None:
    add_row(database_url, age=SHORT_S)
    assert run().stdout == WELL  # younger than a lease
    add_row(database_url, id="second", age=LONG_S, left=-SHORT_S)  # the claim of a relay that is dead
    (told,) = complaints()
    assert (told["about"], "1 row is due, the oldest since" in told["found"]) == ("outbox", True)
    assert "start a relay" in told["do"]


@pytest.mark.parametrize("sign", [{"left": SHORT_S}, {"state": "sent"}])
def test_rows_behind_a_relay_that_is_busy_are_none_of_its_business(database_url: str, sign: dict[str, object]) -> None:
    add_row(database_url, age=LONG_S)
    add_row(database_url, id="second", age=LONG_S, **sign)
    assert run().stdout == WELL


def test_rows_that_are_set_aside_are_told_of_with_the_reason(database_url: str) -> None:
    add_row(database_url, state="parked", error="too_large: body")
    (told,) = complaints()
    assert "1 row is set aside" in told["found"]
    assert "too_large: body" in told["found"]
    assert "smena outbox retry" in told["do"]


def add_schedule(database_url: str, late_s: int) -> None:
    opened = closing(Database(DatabaseSettings(url=SecretStr(database_url)), "test"))
    with opened as database, database.transaction() as connection:
        now = schedules.clock(connection)
        wanted = Wanted(name="nightly", source="added", spec="cron 0 3 * * *", actor="a.b", queue="payments")
        schedules.begin(connection, wanted, now)
        schedules.decided(connection, "nightly", now, now - timedelta(seconds=late_s))


def lead(database_url: str, left_s: int) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "INSERT INTO smena.leases (name, owner, expires_at) VALUES ('leader:scheduler', 'one',"
            " now() + %s * interval '1 s')",
            (left_s,),
        )


def test_a_schedule_that_is_due_and_that_nobody_fires_is_told_of(database_url: str) -> None:
    add_schedule(database_url, SHORT_S)
    assert run().stdout == WELL  # a change of leaders may take that long
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE smena.schedules SET next_at = now() - %s * interval '1 s'", (LONG_S,))
    (told,) = complaints()
    assert told["about"] == "schedules"
    assert "nightly since" in told["found"]
    assert "nobody leads scheduler" in told["found"]
    assert "start a scheduler" in told["do"]
    lead(database_url, SHORT_S)
    (told,) = complaints()
    assert "see what one logs" in told["do"]
    assert "schedule.failed" in told["do"]


@pytest.mark.parametrize(("left_s", "about"), [(SHORT_S, []), (-SHORT_S, []), (-LONG_S, ["leadership"])])
def test_a_scheduler_that_is_gone_for_a_lease_is_told_of(database_url: str, left_s: int, about: list[str]) -> None:
    lead(database_url, left_s)
    assert [one["about"] for one in complaints()] == about


def test_a_broker_that_does_not_answer_is_a_complaint(shell: Shell) -> None:
    shell.set(amqp_url="amqp://guest:guest@127.0.0.1:1", amqp_connect_timeout_s="0.3")
    (told,) = complaints()
    assert (told["about"], "it cannot be seen how they stand" in told["found"]) == ("queues", True)
