"""The archivist: any dead letter becomes a row, the lost find their queue, and figures come from one."""

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from smena.amqp import codec, names
from smena.clock import SYSTEM, Deadline
from smena.guarantees.solo import Solo
from smena.job import Job
from smena.settings import Settings, load
from smena.store.database import Database
from smena.telemetry import events, metric
from smena.telemetry.tally import Board
from tests.fixtures.eventually import eventually
from tests.fixtures.fix_broker import BrokerView
from tests.fixtures.fix_events import Listen
from workers.cli.dead import dead
from workers.wiring import archivist
from workers.wiring.role import Role

NOW = datetime(2026, 1, 1, tzinfo=UTC)
StartArchivist = Callable[[], Board]


@pytest.fixture
def settings(amqp_url: str, database_url: str, unique: str) -> Settings:
    return load(
        {
            "amqp.urls": amqp_url,
            "amqp.prefix": unique,
            "database.url": database_url,
            "worker.queues": "sales,mail",
        },
        env={},
    )


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    with closing(Database(settings.database, "test")) as opened:
        yield opened


@pytest.fixture
def start_archivist(settings: Settings, database: Database) -> Iterator[StartArchivist]:
    with ExitStack() as ends:

        def start() -> Board:
            board = Board()
            role: Role = archivist._role(settings, "archivist", database, board)
            role.services.start()
            ends.callback(role.services.stop, Deadline.within(30, SYSTEM))
            eventually(lambda: not role.unreachable())
            return board

        yield start


@pytest.fixture(autouse=True)
def _queues(broker: BrokerView) -> None:
    broker.knows("sales", "mail", "new")


def rows(database: Database, columns: str) -> list[tuple[Any, ...]]:
    with database.transaction() as connection:
        found = connection.execute(sa.text(f"SELECT {columns} FROM smena.dead_letters ORDER BY id"))  # noqa: S608
        return [tuple(row) for row in found]


def dead_queue(broker: BrokerView, start_archivist: StartArchivist) -> str:
    """Start once, so that the queue is there, and return its name."""
    start_archivist()
    return names.dead_queue(broker.prefix, "sales")


def test_p25_a_thousand_letters_of_any_bytes_become_rows(
    database: Database, broker: BrokerView, start_archivist: StartArchivist
) -> None:
    queue = dead_queue(broker, start_archivist)
    draw = random.Random(25)
    bodies = [number.to_bytes(2, "big") + draw.randbytes(draw.randrange(200)) for number in range(1000)]
    bodies[3], bodies[4], bodies[5] = b"", b"\0" * 50, b'{"a": "\xed\xa0\x80"}'
    for body in bodies:
        headers = {"smena-reason": "undecodable", "text": "a\0b", "raw": b"\xff\xfe", "d": Decimal("1.5"), "at": NOW}
        broker.put("", queue, body, headers=headers, message_id="not unique", type="\0")
    eventually(lambda: len(rows(database, "1")) == 1000)
    assert sorted(bytes(body) for (body,) in rows(database, "body")) == sorted(bodies)
    assert set(rows(database, "reason, queue, source")) == {("undecodable", "sales", queue)}
    assert broker.depth(queue) == 0


def test_p18_a_letter_says_why_when_where_and_is_one_row_however_often_it_comes(
    database: Database, broker: BrokerView, start_archivist: StartArchivist
) -> None:
    queue = dead_queue(broker, start_archivist)
    job = Job(actor="sales.record", queue="sales", attempt=2, timestamp_ms=1_700_000_000_000)
    body = codec.encode(job).body
    headers = {
        "smena-reason": "price_not_positive",
        "smena-error-class": "actors.sales.PriceNotPositive",
        "smena-error-text": "no price",
        "smena-traceback": "File …",
        "smena-fingerprint": "f00",
        "smena-died-at": 1_700_000_009_000,
        "smena-worker": "worker-0",
        "smena-build": "b1",
        "smena-request-id": "r1",
    }
    for _ in range(3):
        broker.put("", queue, body, headers=headers, message_id=job.id)
    other = Job(actor="sales.record", queue="sales")
    broker.put("", queue, codec.encode(other).body)
    eventually(lambda: len(rows(database, "1")) == 2)
    assert rows(database, "job_id, attempt, actor, reason, error_class, error_text, fingerprint, worker, build")[0] == (
        job.id, 2, "sales.record", "price_not_positive", "actors.sales.PriceNotPositive", "no price", "f00",
        "worker-0", "b1",
    )  # fmt: skip
    assert rows(database, "request_id, extract(epoch FROM died_at)::bigint")[0] == ("r1", 1_700_000_009)
    assert rows(database, "reason")[1] == ("unexplained",)


def test_letters_wait_in_the_queue_while_the_database_refuses(
    database: Database, broker: BrokerView, start_archivist: StartArchivist
) -> None:
    queue = dead_queue(broker, start_archivist)
    with database.engine.connect() as holder:
        holder.execute(sa.text("LOCK TABLE smena.dead_letters IN ACCESS EXCLUSIVE MODE"))
        broker.put("", queue, b"letter")
        cancel = sa.text("""SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'""")
        eventually(lambda: holder.execute(cancel).rowcount)
        holder.rollback()
    eventually(lambda: len(rows(database, "1")) == 1)


def test_a_delay_that_ended_nowhere_is_sent_on(
    broker: BrokerView, database: Database, start_archivist: StartArchivist
) -> None:
    dead_queue(broker, start_archivist)
    jobs = [Job(actor="sales.record", queue="new", args=(number,), timestamp_ms=1) for number in range(20)]
    for job in jobs:
        broker.put(
            names.lost_queue(broker.prefix),
            names.delay_route(broker.prefix, 64, "new")[1],
            codec.encode(job).body,
            headers={"x-death": [{"reason": "expired"}], "smena-attempt": 3},
            message_id=job.id,
        )
    work = names.work_queue(broker.prefix, "new")
    eventually(lambda: broker.depth(work) == 20)
    found = broker.take(work)
    assert {properties.message_id for properties, _ in found} == {job.id for job in jobs}
    assert all("x-death" not in properties.headers for properties, _ in found)
    assert all(properties.headers["smena-attempt"] == 3 for properties, _ in found)
    assert eventually(lambda: broker.depth(names.lost_queue(broker.prefix)) == 0)
    assert rows(database, "1") == []


@pytest.mark.parametrize(
    ("routing_key", "body"),
    [("nonsense", b"\xff"), (f"{'0.' * 24}bad.*.name", b"{}"), (f"{'0.' * 24}", b""), ("", b"")],
)
def test_a_delay_without_any_target_becomes_a_letter(
    routing_key: str, body: bytes, broker: BrokerView, database: Database, start_archivist: StartArchivist
) -> None:
    dead_queue(broker, start_archivist)
    broker.put(names.lost_queue(broker.prefix), routing_key, body)
    eventually(lambda: rows(database, "reason, source") == [("no_queue", names.lost_queue(broker.prefix))])


def test_what_cannot_be_buried_now_is_buried_when_the_database_is_back(
    broker: BrokerView, database: Database, start_archivist: StartArchivist, listen: Listen
) -> None:
    dead_queue(broker, start_archivist)
    failed = listen(events.LOOP_FAILED)
    with database.engine.connect() as holder:
        holder.execute(sa.text("LOCK TABLE smena.dead_letters IN ACCESS EXCLUSIVE MODE"))
        broker.put(names.lost_queue(broker.prefix), "nonsense", b"garbage")
        cancel = sa.text("""SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'""")
        eventually(lambda: holder.execute(cancel).rowcount)
        eventually(lambda: failed)
        holder.rollback()
    eventually(lambda: rows(database, "reason, source") == [("no_queue", names.lost_queue(broker.prefix))])
    eventually(lambda: broker.depth(names.lost_queue(broker.prefix)) == 0)


def test_a_target_with_other_arguments_becomes_a_letter_and_stops_nobody(
    broker: BrokerView, database: Database, start_archivist: StartArchivist
) -> None:
    dead_queue(broker, start_archivist)
    broker.channel.queue_declare(names.work_queue(broker.prefix, "new"), durable=True)
    key = names.delay_route(broker.prefix, 64, "new")[1]
    broker.put(names.lost_queue(broker.prefix), key, b"stuck")
    job = Job(actor="mail.confirm", queue="mail", timestamp_ms=1)
    key = names.delay_route(broker.prefix, 64, "mail")[1]
    broker.put(names.lost_queue(broker.prefix), key, codec.encode(job).body, message_id=job.id)
    eventually(lambda: broker.depth(names.work_queue(broker.prefix, "mail")) == 1)
    [(reason, text)] = eventually(lambda: rows(database, "reason, error_text"))
    assert reason == "no_queue"
    assert "argument=" in text


def test_figures_are_sampled_by_one_archivist_of_the_fleet(start_archivist: StartArchivist, listen: Listen) -> None:
    taken = listen(events.SOLO_TAKEN)
    boards = [start_archivist(), start_archivist()]

    def backlogs() -> list[Any]:
        return [board.snapshot()["gauges"].get(metric.BACKLOG.name, {}) for board in boards]

    eventually(lambda: any(backlogs()))
    eventually(lambda: "sampler" in [one.fields["duty"] for one in taken])
    assert [one.fields["duty"] for one in taken].count("sampler") == 1
    assert sum(1 for backlog in backlogs() if backlog) == 1


def test_listing_says_what_lies_in_rows_and_what_still_in_queues(
    broker: BrokerView, database: Database, start_archivist: StartArchivist, settings: Settings
) -> None:
    queue = dead_queue(broker, start_archivist)
    job = Job(actor="sales.record", queue="sales", timestamp_ms=1)
    broker.put("", queue, codec.encode(job).body, headers={"smena-reason": "unexpected", "smena-traceback": "File 7"})
    eventually(lambda: rows(database, "1"))
    env = {
        "SMENA_AMQP_URL": settings.amqp.required_urls()[0],
        "SMENA_AMQP_PREFIX": settings.amqp.prefix,
        "SMENA_DATABASE_URL": settings.database.libpq_url(),
        "SMENA_WORKER_QUEUES": "sales",
    }
    listed = CliRunner().invoke(dead, ["list"], env=env)
    assert listed.exit_code == 0, listed.output
    assert "sales.record" in listed.output
    assert "1 in rows: unexpected 1" in listed.output
    assert "0 still in queues: none" in listed.output
    shown = CliRunner().invoke(dead, ["show", job.id], env=env)
    assert "File 7" in shown.output
    assert CliRunner().invoke(dead, ["show", "nothing"], env=env).exit_code == 1


def test_without_a_database_only_counts_are_known(broker: BrokerView, settings: Settings) -> None:
    name = names.dead_queue(broker.prefix, "sales")
    broker.channel.queue_declare(name, durable=True)
    broker.put("", name, b"one")
    env = {
        "SMENA_AMQP_URL": settings.amqp.required_urls()[0],
        "SMENA_AMQP_PREFIX": settings.amqp.prefix,
        "SMENA_DATABASE_URL": "",
        "SMENA_WORKER_QUEUES": "sales",
    }
    listed = eventually(lambda: CliRunner().invoke(dead, ["list"], env=env), until=lambda it: "1 still" in it.output)
    assert "without PostgreSQL only the counts in queues are known" in listed.output
    assert f"1 still in queues: {name} 1" in listed.output


def test_one_archivist_keeps_the_canaries_and_another_follows(
    broker: BrokerView, database: Database, start_archivist: StartArchivist, listen: Listen
) -> None:
    home = listen(events.CANARY_RETURNED)
    start_archivist()
    eventually(lambda: {0, 1, 2, 3} <= {one.fields["delay_level"] for one in home})
    rival = Solo(database, "canaries")
    assert not rival.held()
    rival.leave()
    assert eventually(lambda: broker.depth(names.canary_queue(broker.prefix)) == 0)
