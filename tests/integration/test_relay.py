"""The relay: every committed row reaches the broker; a bad one only stops itself."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from pydantic import SecretStr

from sharding import leases, plans
from sharding.partitions import Partitions
from smena import outbox
from smena.amqp import names
from smena.amqp.link import Connection, LinkThread
from smena.amqp.publisher import Publisher
from smena.clock import SYSTEM, Deadline
from smena.errors import BrokerLost
from smena.job import Job
from smena.keyspace import partition_of
from smena.outbox.claims import SLOTS, Claims, Verdict
from smena.outbox.dispatch import outgoing_of
from smena.outbox.doorbell import Doorbell
from smena.outbox.shelf import Shelf
from smena.settings.groups import Amqp
from smena.settings.groups import Database as DatabaseSettings
from smena.store.database import Database
from smena.store.terms import Term
from smena.telemetry import events
from tests.fixtures.eventually import eventually
from tests.fixtures.fix_broker import BrokerView
from tests.fixtures.fix_events import Listen
from tests.fixtures.fix_proxy import Proxied
from workers.roles.relay import Relay
from workers.roles.slots import GROUP, Slots

StartRelay = Callable[..., Relay]


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with closing(Database(DatabaseSettings(url=SecretStr(database_url)), "test")) as opened:
        yield opened


@pytest.fixture
def start_relay(database: Database, amqp: Amqp) -> Iterator[StartRelay]:
    """Give a function that starts a relay with a link of its own; all end with the test."""
    with ExitStack() as ends:

        def start(settings: Amqp = amqp, *, poll_s: float = 0.2, batch: int = 500, wait: bool = True) -> Relay:
            link = LinkThread()
            doorbell = Doorbell(lambda: database.connect(autocommit=True), SYSTEM)
            owner = os.urandom(8).hex()
            slots = Slots(lambda slot: partitions.fence_of(slot), doorbell.knock)
            partitions = Partitions(database, GROUP, SLOTS, slots, lease_s=20, clock=SYSTEM, owner=owner)
            connection = Connection(link, settings, "relay")
            publisher = Publisher(connection, settings, SYSTEM)
            relay = Relay(
                Claims(database, owner, 30),
                doorbell,
                publisher,
                lambda row: outgoing_of(row, settings.prefix),
                lambda: connection.is_up and not connection.blocked,
                SYSTEM,
                slots,
                batch=batch,
                poll_s=poll_s,
            )
            connection.listen(relay)
            for service in (link, connection, publisher, relay, partitions):
                service.start()
                ends.callback(service.stop, Deadline.within(30, SYSTEM))
            assert not wait or connection.wait_up(30)
            return relay

        yield start


def job(number: int = 0, queue: str = "sales") -> Job:
    return Job(actor="sales.record", queue=queue, args=(number,), timestamp_ms=1_700_000_000_000)


def add(database: Database, *jobs: Job, **how: Any) -> None:
    with database.transaction() as connection:
        outbox.add(connection, *jobs, **how)


def states(database: Database) -> dict[str, int]:
    with database.transaction() as connection:
        counted = connection.execute(sa.text("SELECT state, count(*) FROM smena.outbox GROUP BY 1"))
        return {row[0]: row[1] for row in counted}


def all_sent(database: Database) -> bool:
    return not states(database).keys() - {"sent"}


def published(broker: BrokerView, queue: str = "sales") -> list[str]:
    return [properties.message_id for properties, _ in broker.take(names.work_queue(broker.prefix, queue))]


@pytest.fixture(autouse=True)
def _queues(broker: BrokerView) -> None:
    broker.knows("sales", "mail")


def test_rows_are_published_under_their_own_id_and_marked(
    database: Database, broker: BrokerView, start_relay: StartRelay
) -> None:
    jobs = [job(number) for number in range(1200)]
    add(database, *jobs)
    start_relay()
    eventually(lambda: all_sent(database))
    assert published(broker) == [one.id for one in jobs]


def test_p38_a_row_that_commits_late_is_sent(database: Database, broker: BrokerView, start_relay: StartRelay) -> None:
    start_relay()
    late, early = job(1), job(2)
    with database.engine.connect() as slow, slow.begin() as transaction:
        outbox.add(slow, late)
        add(database, early)
        eventually(lambda: states(database) == {"sent": 1})
        transaction.commit()
    eventually(lambda: states(database) == {"sent": 2})
    assert published(broker) == [early.id, late.id]


def test_a_row_that_is_rolled_back_is_never_sent(
    database: Database, broker: BrokerView, start_relay: StartRelay
) -> None:
    start_relay()
    with database.engine.connect() as connection:
        outbox.add(connection, job(1))
        connection.rollback()
    add(database, kept := job(2))
    eventually(lambda: all_sent(database))
    assert published(broker) == [kept.id]


_STRANGE = sa.text("""
INSERT INTO smena.outbox (id, actor, queue, exchange, routing_key, body, properties)
VALUES (:id, 'sales.record', :queue, :exchange, :routing_key, :body, CAST(:properties AS json))
""")


def strange(database: Database, **differently: Any) -> str:
    """Write a row by hand, as another language would, and return its id."""
    one = job()
    body = json.dumps({
        "queue_name": "sales", "actor_name": "sales.record", "args": [1], "kwargs": {}, "options": {},
        "message_id": one.id, "message_timestamp": 1,
    }).encode()  # fmt: skip
    row = {"id": one.id, "queue": "sales", "exchange": None, "routing_key": None, "body": body, "properties": "{}"}
    with database.transaction() as connection:
        connection.execute(_STRANGE, row | differently)
    return str((row | differently)["id"])


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"body": b"\xff\x00 no json"}, "undecodable"),
        ({"body": b""}, "undecodable"),
        ({"id": "not the body's id"}, "undecodable"),
        ({"properties": '{"headers": "none"}'}, "undecodable"),
        ({"properties": '{"headers": {"a": 1e400}}'}, "undecodable"),
        ({"properties": '{"headers": {"n": 99999999999999999999}}'}, "unsendable"),
        ({"properties": json.dumps({"headers": {"long": "x" * 70_000}})}, "too_large"),
        ({"properties": '{"expiration": "soon"}'}, "unsendable"),
        ({"properties": '{"expiration": "4294967296"}'}, "unsendable"),
        ({"properties": '{"headers": {"CC": "one"}}'}, "unsendable"),
        ({"properties": '{"headers": {"BCC": [1]}}'}, "unsendable"),
        ({"properties": '{"reply_to": "amq.rabbitmq.reply-to"}'}, "unsendable"),
        ({"queue": "sales.#"}, "unsendable"),
        ({"exchange": "there is none", "routing_key": "x"}, "unroutable"),
        ({"exchange": "amq.direct", "routing_key": "nobody listens"}, "unroutable"),
    ],
)
def test_p39_a_bad_row_is_parked_with_its_error_and_the_others_go(
    wrong: dict[str, Any], reason: str, database: Database, broker: BrokerView, start_relay: StartRelay
) -> None:
    before, after = job(1), job(2)
    add(database, before)
    bad = strange(database, **wrong)
    add(database, after)
    start_relay()
    eventually(lambda: states(database) == {"sent": 2, "parked": 1})
    assert published(broker) == [before.id, after.id]
    [entry] = Shelf(database).entries(["parked"], 10)
    assert entry.id == bad
    assert entry.error is not None
    assert entry.error.startswith(reason)


def test_p39_a_row_that_names_another_user_is_sent_as_the_relays_own(
    database: Database, broker: BrokerView, start_relay: StartRelay
) -> None:
    start_relay()
    written = strange(database, properties='{"user_id": "somebody else", "expiration": "4294967295"}')
    eventually(lambda: all_sent(database))
    assert published(broker) == [written]


def test_p39_a_bad_row_closes_no_channel_under_the_others(
    database: Database, start_relay: StartRelay, listen: Listen
) -> None:
    closed = listen(events.PUBLISH_FAILED)
    strange(database, properties='{"expiration": "soon"}')
    start_relay()
    eventually(lambda: states(database) == {"parked": 1})
    assert closed == []


def test_a_row_written_by_hand_is_sent_by_the_poll(
    database: Database, broker: BrokerView, start_relay: StartRelay
) -> None:
    start_relay()
    written = strange(database)
    eventually(lambda: all_sent(database))
    assert published(broker) == [written]


def test_a_parked_row_goes_when_an_operator_says_so(
    database: Database, broker: BrokerView, start_relay: StartRelay
) -> None:
    start_relay()
    parked = strange(database, exchange="amq.direct", routing_key="nobody listens")
    eventually(lambda: states(database) == {"parked": 1})
    with database.transaction() as connection:
        connection.execute(sa.text("UPDATE smena.outbox SET exchange = NULL, routing_key = NULL"))
    assert Shelf(database).retry("another") == 0
    assert Shelf(database).retry(parked) == 1
    eventually(lambda: all_sent(database))
    assert published(broker) == [parked]


def test_p39_an_outage_of_the_broker_parks_nothing(
    database: Database,
    broker: BrokerView,
    amqp: Amqp,
    proxied: Callable[[str], Proxied],
    start_relay: StartRelay,
) -> None:
    proxy, url = proxied(amqp.required_urls()[0])
    start_relay(Amqp(urls=url, prefix=amqp.prefix, publish_timeout_s=0.5))
    proxy.deafen()
    jobs = [job(number) for number in range(50)]
    add(database, *jobs)

    def tries() -> int:
        with database.transaction() as connection:
            return connection.scalar(sa.text("SELECT max(tries) FROM smena.outbox")) or 0

    eventually(tries)
    proxy.refuse()
    proxy.heal()
    eventually(lambda: all_sent(database))
    assert set(published(broker)) == {one.id for one in jobs}


def test_two_relays_share_the_rows_and_double_none(
    database: Database, broker: BrokerView, start_relay: StartRelay
) -> None:
    jobs = [job(number) for number in range(4000)]
    start_relay(batch=100)
    start_relay(batch=100)
    for start in range(0, 4000, 500):
        add(database, *jobs[start : start + 500])
    eventually(lambda: states(database) == {"sent": 4000})
    assert Counter(published(broker)) == {one.id: 1 for one in jobs}


def test_p06_a_relay_whose_doorbell_broke_still_sends_and_listens_again(
    database: Database, broker: BrokerView, start_relay: StartRelay
) -> None:
    start_relay(poll_s=0.5)

    def ears() -> list[int]:
        listening = sa.text("""SELECT pid FROM pg_stat_activity
            WHERE datname = current_database() AND query LIKE '%advisory%' AND pid <> pg_backend_pid()""")
        with database.transaction() as connection:
            return list(connection.scalars(listening))

    [old] = eventually(ears)
    with database.transaction() as connection:
        connection.execute(sa.text("SELECT pg_terminate_backend(:pid)"), {"pid": old})
    add(database, one := job())
    eventually(lambda: all_sent(database))
    assert published(broker) == [one.id]
    eventually(lambda: bool(ears()) and old not in ears())


def test_a_relay_that_lost_its_claim_changes_nothing(database: Database) -> None:
    add(database, job())
    frozen, awake = Claims(database, "frozen", 30), Claims(database, "awake", 30)
    [old] = frozen.take(10)
    assert awake.take(10) == []
    with database.transaction() as connection:
        connection.execute(sa.text("UPDATE smena.outbox SET lease_until = now() - interval '1 s'"))
    [new] = awake.take(10)
    assert new.term == old.term + 1
    for late in (
        Verdict(sent=[(old, None)]),
        Verdict(parked=[(old, BrokerLost())]),
        Verdict(held_back=[(old, BrokerLost())]),
    ):
        assert frozen.settle(late) == 1
        assert states(database) == {"pending": 1}
    frozen.release([old])
    assert awake.settle(Verdict(sent=[(new, None)])) == 0
    assert states(database) == {"sent": 1}


def slots_of(database: Database, owner: str) -> dict[int, Term]:
    """Take all slots of the ordering keys over for this owner, as if their leases had run out."""
    with database.connect(autocommit=True) as connection:
        plans.begin(connection, GROUP, SLOTS)
        connection.execute("UPDATE smena.leases SET expires_at = clock_timestamp()")
        names = [leases.lease_name(GROUP, slot) for slot in range(SLOTS)]
        return {leases.partition_in(term.lease): term for term in leases.claim(connection, names, owner, 60)}


def test_rows_of_one_key_wait_for_those_before_them(database: Database) -> None:
    first, second, third, stranger = job(1), job(2), job(3), job(4)
    for one in (first, second, third):
        add(database, one, ordering_key="customer 1")
    add(database, stranger, ordering_key="customer 2")
    claims, slots = Claims(database, "relay", 30), slots_of(database, "relay")
    assert [row.id for row in claims.take(2, slots)] == [first.id, second.id]
    assert [row.id for row in claims.take(1, slots)] == [stranger.id], "rows that wait fill no batch"
    with database.transaction() as connection:
        connection.execute(sa.text("UPDATE smena.outbox SET lease_until = NULL WHERE id <> :id"), {"id": first.id})
    assert [row.id for row in claims.take(10, slots)] == [stranger.id], "the first one is still claimed"


def test_a_held_back_row_holds_back_its_key(database: Database) -> None:
    add(database, job(1), ordering_key="k")
    claims, slots = Claims(database, "relay", 30), slots_of(database, "relay")
    claims.settle(Verdict(held_back=[(row, BrokerLost()) for row in claims.take(1, slots)], wait_s=60))
    add(database, job(2), ordering_key="k")
    assert claims.take(10, slots) == []


def test_rows_with_a_key_are_claimed_only_under_its_slot_s_lease(database: Database) -> None:
    add(database, keyed := job(1), ordering_key="k")
    add(database, free := job(2))
    slot = partition_of("k", SLOTS)
    stale = slots_of(database, "frozen")
    current = slots_of(database, "awake")
    frozen, awake = Claims(database, "frozen", 30), Claims(database, "awake", 30)
    assert [row.id for row in frozen.take(10)] == [free.id]
    assert frozen.take(10, stale) == []
    others = {number: term for number, term in current.items() if number != slot}
    assert awake.take(10, others) == []
    (row,) = awake.take(10, {slot: current[slot]})
    assert (row.id, row.slot) == (keyed.id, slot)


def test_who_takes_a_slot_over_takes_its_claimed_rows_at_once_and_in_order(database: Database) -> None:
    first, second = job(1), job(2)
    add(database, first, ordering_key="k")
    dead, heir = Claims(database, "dead", 3600), Claims(database, "heir", 3600)
    assert [row.id for row in dead.take(10, slots_of(database, "dead"))] == [first.id]
    add(database, second, ordering_key="k")
    assert [row.id for row in heir.take(10, slots_of(database, "heir"))] == [first.id, second.id]


def test_a_row_is_not_claimed_past_an_earlier_one_of_its_key_that_is_locked(database: Database) -> None:
    add(database, first := job(1), ordering_key="k")
    add(database, second := job(2), ordering_key="k")
    claims, slots = Claims(database, "relay", 30), slots_of(database, "relay")
    with database.transaction() as connection:
        connection.execute(sa.text("SELECT 1 FROM smena.outbox WHERE id = :id FOR UPDATE"), {"id": first.id})
        assert claims.take(10, slots) == []
    assert [row.id for row in claims.take(10, slots)] == [first.id, second.id]


def test_a_row_is_not_claimed_past_an_earlier_one_of_its_key_when_the_clock_was_set_back(database: Database) -> None:
    add(database, first := job(1), ordering_key="k")
    add(database, second := job(2), ordering_key="k")
    with database.transaction() as connection:
        back = sa.text("UPDATE smena.outbox SET due_at = due_at - interval '1 h' WHERE id = :id")
        connection.execute(back, {"id": second.id})
    claims, slots = Claims(database, "relay", 30), slots_of(database, "relay")
    (row,) = claims.take(1, slots)
    assert row.id == first.id
    claims.settle(Verdict(sent=[(row, None)]))
    assert [row.id for row in claims.take(1, slots)] == [second.id]


def test_a_batch_is_bounded_in_bytes(database: Database) -> None:
    large = [job().replace(args=("x" * 6_000_000,)) for _ in range(5)]
    for one in large:
        add(database, one)
    taken = Claims(database, "relay", 30).take(100)
    assert [row.id for row in taken] == [one.id for one in large[:3]]


def test_p15_a_row_due_soon_passes_many_that_are_due_late(
    database: Database, broker: BrokerView, start_relay: StartRelay
) -> None:
    add(database, *[job(number) for number in range(20_000)], delay_s=86_400)
    start_relay(poll_s=30)
    add(database, soon := job(), delay_s=0.5)
    eventually(lambda: states(database).get("sent") == 1)
    assert published(broker) == [soon.id]


def test_stopping_marks_what_is_under_way(database: Database, broker: BrokerView, start_relay: StartRelay) -> None:
    relay = start_relay(batch=10)
    add(database, *[job(number) for number in range(2000)])
    eventually(lambda: states(database).get("sent", 0) > 0)
    assert relay.stop(Deadline.within(30, SYSTEM))
    with database.transaction() as connection:
        claimed = connection.scalar(sa.text("SELECT count(*) FROM smena.outbox WHERE owner IS NOT NULL"))
    sent = states(database).get("sent", 0)
    assert claimed == 0
    assert len(published(broker)) == sent


def test_a_database_that_is_away_for_a_while_loses_nothing(
    database: Database, broker: BrokerView, start_relay: StartRelay, server_url: str
) -> None:
    start_relay(batch=50)
    jobs = [job(number) for number in range(2000)]
    add(database, *jobs)
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'test' AND datname = %s"
    with database.transaction() as connection:
        name = connection.scalar(sa.text("SELECT current_database()"))
    with psycopg.connect(server_url, autocommit=True) as admin:
        for _ in range(3):
            eventually(lambda: admin.execute(cut, (name,)).rowcount)
    eventually(lambda: all_sent(database), errors=(AssertionError, Exception))
    assert {one.id for one in jobs} == set(published(broker))
