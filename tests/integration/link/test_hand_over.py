"""A partition that changes hands in the middle of its flow keeps the order of each key (guarantee 5)."""

from __future__ import annotations

import random
import threading
from collections import defaultdict, deque
from collections.abc import Iterator
from typing import cast

import pytest
import sqlalchemy as sa
from pydantic import SecretStr
from sqlalchemy.orm import Session

import smena
from smena.amqp import names
from smena.clock import SYSTEM, Deadline
from smena.job import Job
from smena.records.held_keys import HeldKeys, Place
from smena.settings.groups import Database as DatabaseSettings
from smena.settings.groups import Retry as RetryDefaults
from smena.store import terms
from smena.store.database import Database
from smena.store.tables import key_holds, key_parked
from tests.fixtures.eventually import eventually
from tests.integration.link.conftest import Broker, Link, Settle
from workers.broker.partition_consumer import PartitionConsumer
from workers.execution.nextmessage import NextMessages
from workers.execution.ordered.decisions import Decisions
from workers.execution.ordered.desk import Desk
from workers.execution.ordered.floor import Floor
from workers.execution.ordered.keeper import Keeper
from workers.middleware.attempt import Attempt
from workers.middleware.bound import BoundActor
from workers.middleware.outcome import Retry

KEYS = 7
PREFETCH = 32
MOST_PARKED = 20
"""Less than what is in hand at a hand-over: the bound must not refuse it."""

HAND_OVERS = 15
WORK = names.work_queue("test", names.address("handed", 0))

book = smena.Book("handed")


@book.actor(queue="handed", partition_by=lambda key: key, partitions=1)
def move(session: Session, /, key: str, number: int) -> None:
    """Be run by the test."""


class Flow:
    """What is sent and what took effect: of each job the first copy counts, as the ring `once` has it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.sent: dict[str, list[int]] = defaultdict(list)
        self.ran: dict[str, list[int]] = defaultdict(list)
        self._over: set[tuple[str, int]] = set()
        self._ended: set[str] = set()

    def jobs(self, count: int) -> list[Job]:
        """Return jobs that are to be sent next; some fail in their first attempt."""
        made = [f"k{self.chance.randrange(KEYS)}" for _ in range(count)]
        return [self._job(key) for key in made]

    def _job(self, key: str) -> Job:
        number = len(self.sent[key])
        self.sent[key].append(number)
        return move.message(key, number)

    def work(self, desk: Desk, attempt: Attempt) -> None:
        """Let a job take effect, or fail."""
        job, (key, number) = attempt.job, attempt.job.args
        if job.id not in self._ended and (job.id, job.attempt) not in self._over:
            self._over.add((job.id, job.attempt))
            if number % 9 == 4 and job.attempt == 1:
                desk.settle(attempt, Retry(0.01, RuntimeError("the first attempt of this job always fails")))
                return
            self._ended.add(job.id)
            self.ran[key].append(number)
        attempt.delivery.ack()


class Owner:
    """Owns the partition under a term of its own: its desk, its keeper, its connection. The test runs the jobs."""

    def __init__(self, link: Link, settings: Settle, database: Database, flow: Flow) -> None:
        self._database = database
        with database.transaction() as connection:
            term = terms.take(connection, "partition:handed:000", f"owner-{flow.chance.random()}", 600)
        assert term is not None
        self.flow, self.term = flow, term
        self.admitted: deque[Attempt] = deque()
        self.connection = link.connection(settings(), "owner")
        self.consumer = PartitionConsumer(self.connection, "test", PREFETCH)
        self.keeper = Keeper(HeldKeys(database), lambda: [self.desk], SYSTEM, crowd=1000)
        self.keeper.on_leave(lambda _desk, done: self.consumer.let_go("handed", 0, done))
        self.desk = Desk(Place("handed", 0, term), 1, self._floor())
        self.consumer.start()
        self.keeper.start()
        self.keeper.open(self.desk, lambda: self.consumer.take("handed", 0, self.desk))

    def _floor(self) -> Floor:
        bound = BoundActor(move, move.retry.policy(RetryDefaults()))
        decisions = Decisions(cast("NextMessages", None))  # only the dead need it
        return Floor(
            actors={move.name: bound},
            admit=self.admitted.append,
            decisions=decisions,
            settles=cast("NextMessages", None),
            publish=lambda _pending: None,
            consumer=self.consumer,
            cue=self.keeper.cue,
            clock=SYSTEM,
            most_snoozes=1,
            most_parked=MOST_PARKED,
        )

    def work(self) -> bool:
        """Run one job, of any key."""
        if not self.admitted:
            return False
        self.admitted.rotate(self.flow.chance.randrange(KEYS))
        self.flow.work(self.desk, self.admitted.popleft())
        return True

    def leave(self) -> None:
        """Give the partition up, and release its lease."""
        done = threading.Event()
        self.desk.close(done.set)
        eventually(lambda: self.work() or done.is_set(), until=lambda _: done.is_set(), pause_s=0.001)
        with self._database.transaction() as connection:
            terms.release(connection, self.term)
        self.stop()

    def stop(self) -> None:
        self.keeper.ask_to_stop()
        self.keeper.cue()
        assert self.keeper.stop(Deadline.within(10, SYSTEM))
        assert self.connection.stop(Deadline.within(10, SYSTEM))


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(DatabaseSettings(url=SecretStr(database_url)), "test")
    yield database
    database.close()


def counted(database: Database, table: sa.Table) -> int:
    with database.transaction() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


def test_what_is_in_hand_goes_to_the_next_owner_in_rows_and_not_by_the_broker(
    link: Link, settings: Settle, broker: Broker, database: Database
) -> None:
    broker.doom(WORK)
    flow = Flow(1)
    publisher = link.publisher(settings())
    assert not any(publisher.send_many(flow.jobs(PREFETCH + 10)))
    first = Owner(link, settings, database, flow)
    eventually(lambda: first.desk.waiting() + len(first.admitted) == PREFETCH)
    first.leave()

    assert counted(database, key_parked) > MOST_PARKED
    with database.transaction() as connection:
        parked = connection.execute(sa.select(key_parked.c.key)).scalars().all()
        held = connection.execute(sa.select(key_holds.c.key)).scalars().all()
    assert set(held) == set(parked)
    ended = sum(map(len, flow.ran.values()))
    assert eventually(lambda: broker.depth(WORK) + len(parked) + ended == PREFETCH + 10)


@pytest.mark.parametrize("cuts", [False, True])
def test_keys_keep_their_order_however_often_their_partition_changes_hands(
    cuts: bool, link: Link, settings: Settle, broker: Broker, database: Database
) -> None:
    broker.doom(WORK)
    flow = Flow(2 + cuts)
    publisher = link.publisher(settings())
    for _ in range(HAND_OVERS):
        assert not any(publisher.send_many(flow.jobs(20)))
        owner = Owner(link, settings, database, flow)
        for _ in range(flow.chance.randrange(30)):
            eventually(owner.work, pause_s=0.001)
        assert not any(publisher.send_many(flow.jobs(10)))
        if cuts and flow.chance.random() < 0.5:
            link.thread.post(owner.connection.drop)
        owner.leave()

    last = Owner(link, settings, database, flow)
    eventually(lambda: last.work() or flow.ran == flow.sent, until=lambda _: flow.ran == flow.sent, pause_s=0.001)
    eventually(
        lambda: last.work() or counted(database, key_holds) == 0, until=lambda _: counted(database, key_holds) == 0
    )
    assert counted(database, key_parked) == 0
    last.leave()
