"""A service connects and sends: to the real broker, and through the outbox where that is the way."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pika
import psycopg
import pytest
from sqlalchemy import text

import smena
from smena import context
from smena.book import RemoteActor, by_name
from smena.connected import Connected
from smena.context import Context
from smena.errors import DelayTooLong, Misconfigured, Unsendable
from smena.settings import Settings, load
from smena.store.database import Database
from tests.fixtures.eventually import eventually

DAY_S = 86_400


class Broker:
    """A queue of the test's own, looked at past Smena."""

    def __init__(self, url: str, queue: str) -> None:
        self.queue = queue
        self._connection = pika.BlockingConnection(pika.URLParameters(url))
        self._channel = self._connection.channel()

    def next(self) -> tuple[dict[str, Any], Any] | None:
        method, properties, body = self._channel.basic_get(f"smena.{self.queue}", auto_ack=True)
        return None if method is None else (json.loads(body), properties)

    def take(self) -> tuple[dict[str, Any], Any]:
        taken = eventually(self.next)
        assert taken is not None
        return taken

    def close(self) -> None:
        for name in (f"smena.{self.queue}", f"smena.{self.queue}.dead"):
            self._channel.queue_delete(name)
        self._connection.close()


@pytest.fixture
def broker(amqp_url: str, unique: str) -> Iterator[Broker]:
    broker = Broker(amqp_url, unique)
    yield broker
    broker.close()


@pytest.fixture
def settings(amqp_url: str, database_url: str) -> Settings:
    return load(env={"SMENA_AMQP_URL": amqp_url, "SMENA_DATABASE_URL": database_url})


@pytest.fixture
def connected(settings: Settings) -> Iterator[Connected]:
    with smena.connect(settings) as connected:
        yield connected


def outbox_rows(database_url: str) -> list[tuple[str, float]]:
    with psycopg.connect(database_url) as connection:
        rows = connection.execute("SELECT id, extract(epoch FROM due_at - now())::float FROM smena.outbox ORDER BY id")
        return rows.fetchall()


def test_what_was_sent_is_on_the_broker_when_send_returns(connected: Connected, broker: Broker) -> None:
    job = by_name("trade.charge", queue=broker.queue).send("489434", part=2)

    body, properties = broker.take()
    assert (body["actor_name"], body["args"], body["kwargs"]) == ("trade.charge", ["489434"], {"part": 2})
    assert (body["message_id"], properties.message_id, properties.delivery_mode) == (job.id, job.id, 2)
    assert properties.headers["smena-request-id"] == job.request_id
    assert properties.headers["smena-traceparent"] == job.traceparent


async def test_it_can_be_awaited(connected: Connected, broker: Broker) -> None:
    job = await by_name("trade.charge", queue=broker.queue).asend(1)

    assert broker.take()[0]["message_id"] == job.id


def test_many_are_sent_with_an_outcome_each(connected: Connected, broker: Broker) -> None:
    there = by_name("trade.charge", queue=broker.queue)
    jobs = [there.message(number) for number in range(500)]
    jobs[7] = jobs[7].replace(args=("\0",))

    outcomes = smena.send_many(jobs)

    assert isinstance(outcomes[7], Unsendable)
    assert outcomes.count(None) == 499
    assert {broker.take()[0]["args"][0] for _ in range(499)} == set(range(500)) - {7}
    assert broker.next() is None


def test_a_short_delay_goes_through_the_levels(connected: Connected, broker: Broker, database_url: str) -> None:
    there = by_name("trade.charge", queue=broker.queue)
    there.send("now")
    later = there.send_later(0.3, "later")

    assert broker.take()[0]["args"] == ["now"]
    assert broker.take()[0]["message_id"] == later.id
    assert outbox_rows(database_url) == []


async def test_a_long_delay_waits_in_the_database(connected: Connected, database_url: str, unique: str) -> None:
    first = by_name("trade.charge", queue=unique).send_later(30 * DAY_S, 1)
    second = await by_name("trade.charge", queue=unique).asend_later(30 * DAY_S, 2)

    rows = dict(outbox_rows(database_url))
    assert set(rows) == {first.id, second.id}
    assert all(30 * DAY_S - 300 < due_s <= 30 * DAY_S for due_s in rows.values())


def test_without_a_database_a_delay_beyond_the_levels_is_refused(amqp_url: str, unique: str) -> None:
    with smena.connect(load(env={"SMENA_AMQP_URL": amqp_url})), pytest.raises(DelayTooLong):
        by_name("trade.charge", queue=unique).send_later(30 * DAY_S, 1)


def test_inside_a_jobs_transaction_messages_come_and_go_with_it(
    connected: Connected, settings: Settings, database_url: str, unique: str
) -> None:
    database = Database(settings.database, "test")
    there = by_name("trade.charge", queue=unique)
    ctx = Context(there.message("parent"))
    with database.session() as session, context.running(ctx), ctx.committing_with(session):
        there.send("rolled back")
        session.rollback()
        kept = [there.send("kept"), there.send_later(60, "kept, later")]
        many = [there.message("one"), there.message("bad").replace(args=("\0",)), there.message("two")]
        outcomes = smena.send_many(many)
        with pytest.raises(ZeroDivisionError):
            send_and_fail(ctx, there)
        with ctx.transaction() as inner:
            inner.execute(text("SELECT 1"))
            kept.append(there.send("in a savepoint"))
        assert outbox_rows(database_url) == []
        session.commit()
    database.close()

    assert [type(outcome) for outcome in outcomes] == [type(None), Unsendable, type(None)]
    assert {job_id for job_id, _ in outbox_rows(database_url)} == {job.id for job in [*kept, many[0], many[2]]}


def send_and_fail(ctx: Context, there: RemoteActor) -> None:
    with ctx.transaction():
        there.send("in a savepoint that failed")
        _ = 1 / 0


async def test_inside_an_async_jobs_transaction_messages_come_and_go_with_it(
    connected: Connected, settings: Settings, database_url: str, unique: str
) -> None:
    database = Database(settings.database, "test")
    there = by_name("trade.charge", queue=unique)
    ctx = Context(there.message("parent"))
    async with database.asession() as session:
        with context.running(ctx), ctx.committing_with(session):
            with pytest.raises(Misconfigured, match="an async job awaits"):
                there.send("would block the loop")
            async with ctx.atransaction():
                kept = await there.asend("kept")
            await session.commit()
            await there.asend("rolled back")
    await database.aengine.dispose()

    assert [job_id for job_id, _ in outbox_rows(database_url)] == [kept.id]


def test_a_process_connects_once_and_closes_without_a_trace(settings: Settings, unique: str) -> None:
    with smena.connect(settings) as connected:
        assert connected.wait_up(30)
        with pytest.raises(Misconfigured, match="connected already"):
            smena.connect(settings)
    assert connected.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "smena-link"]
    with pytest.raises(Misconfigured, match="nothing to send by"):
        by_name("trade.charge", queue=unique).send(1)


def test_connecting_without_a_broker_address_says_what_to_set() -> None:
    with pytest.raises(Misconfigured, match="SMENA_AMQP_URL"):
        smena.connect(load(env={}))
    with pytest.raises(Misconfigured, match="nothing to send by"):
        by_name("trade.charge").send(1)
