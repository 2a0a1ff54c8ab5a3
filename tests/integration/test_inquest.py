"""A job that came back starts only when it is known what it left behind."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from smena.clock import SYSTEM, Clock, Deadline, MovedClock
from smena.errors import DatabaseLost
from smena.guarantees.life import Life
from smena.job import Job
from smena.records.asked import Attempt as AttemptKey
from smena.records.strike import Start, Strike
from smena.records.strikes import Found, Strikes
from smena.settings.groups import Database as DatabaseSettings
from smena.store.database import Database
from tests.fixtures.eventually import PATIENCE_S, eventually
from tests.fixtures.noted_delivery import NotedDelivery
from workers.broker.delivery import Delivery
from workers.execution import inquest
from workers.execution.inquest import Inquest, Own
from workers.middleware.attempt import Attempt


class Actor:
    name = "a.b"


class Sent:
    """Where attempts went."""

    def __init__(self) -> None:
        self.started: list[Attempt] = []
        self.suspected: list[tuple[str, list[str]]] = []
        self.expected = 0

    def expect(self) -> None:
        self.expected += 1

    def start(self, attempt: Attempt) -> None:
        self.started.append(attempt)

    def suspect(self, attempt: Attempt, strikes: Sequence[Strike]) -> None:
        self.suspected.append((attempt.job.id, [strike.why for strike in strikes]))

    def ids(self) -> set[str]:
        return {attempt.job.id for attempt in self.started}


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(DatabaseSettings(url=database_url), "test", 8)
    yield database
    database.close()


@pytest.fixture
def sent() -> Sent:
    return Sent()


Look = Callable[..., Inquest]


@pytest.fixture
def look(sent: Sent) -> Iterator[Look]:
    """Give a function that starts an inquest over a register; all are stopped with the test."""
    with ExitStack() as closing:

        def begun(register: Any, clock: Clock = SYSTEM) -> Inquest:
            own = Own("own", "worker-0", "here")
            made = Inquest(register, own, sent.suspect, sent.start, clock, expect=sent.expect)
            made.start()
            closing.callback(lambda: made.stop(Deadline.within(PATIENCE_S, SYSTEM)))
            return made

        yield begun


class Tags:
    """The tags of a channel that stands."""

    alive = True

    def settle(self, tag: int) -> None:
        """Be told."""


def came(job_id: str, attempt: int = 1, *, redelivered: bool = True, clock: Clock = SYSTEM) -> Attempt:
    actor: Any = Actor()
    delivery = NotedDelivery(redelivered=redelivered)
    delivery.received_at = clock.monotonic()
    return Attempt(delivery, Job(id=job_id, actor="a.b", queue="q", attempt=attempt), actor)


def strike(job_id: str, life: str = "gone") -> Strike:
    return Strike(job_id=job_id, attempt=1, life=life, actor="a.b")


def test_p21_a_struck_job_never_starts_beside_others(database: Database, look: Look, sent: Sent) -> None:
    strikes = Strikes(database)
    strikes.bury("gone", [strike("bad")])
    looking = look(strikes)
    for attempt in (came("bad"), came("good"), came("bad", 2), came("bad", redelivered=False)):
        looking.put(attempt)
    eventually(lambda: len(sent.started) == 2 and len(sent.suspected) == 2)
    assert sorted(attempt.job.attempt for attempt in sent.started) == [1, 2]
    assert sent.suspected == [("bad", ["suspected"])] * 2
    assert not sent.expected


def test_p21_what_came_back_waits_until_a_known_death_is_written_down(
    database: Database, look: Look, sent: Sent
) -> None:
    strikes = Strikes(database)
    with database.transaction() as connection:
        connection.execute(sa.text("INSERT INTO smena.lives VALUES ('gone', 'worker-1', 'here')"))
    clock = MovedClock(datetime(2026, 1, 1, tzinfo=UTC))
    looking = look(strikes, clock)
    looking.put(came("bad", clock=clock))
    looking.put(came("not back", redelivered=False, clock=clock))
    clock.advance(inquest.WRITTEN_S - 0.01)
    looked = looking.tick
    eventually(lambda: looking.tick > looked + 2)
    assert sent.ids() == {"not back"}
    assert sent.expected, "a process for suspects is got ready meanwhile"
    strikes.bury("gone", [strike("bad")])
    eventually(lambda: sent.suspected == [("bad", ["suspected"])])
    assert sent.ids() == {"not back"}


def test_p21_a_death_that_nobody_writes_down_makes_suspects_of_what_it_had_begun(
    database: Database, look: Look, sent: Sent
) -> None:
    strikes = Strikes(database)
    with database.transaction() as connection:
        connection.execute(sa.text("INSERT INTO smena.lives VALUES ('gone', 'worker-1', 'there')"))
    begun = Start(job_id="bad", attempt=1, life="gone", actor="a.b", worker="worker-1", host="there")
    strikes.begin([begun])
    looking = look(strikes)
    began_s = SYSTEM.monotonic()
    looking.put(came("bad"))
    looking.put(came("good"))
    eventually(lambda: sent.suspected == [("bad", ["lost"])] and sent.ids() == {"good"})
    assert SYSTEM.monotonic() - began_s >= inquest.WRITTEN_S


def test_a_process_that_lost_its_connection_does_not_take_itself_for_dead(
    database: Database, look: Look, sent: Sent
) -> None:
    with database.transaction() as connection:
        connection.execute(sa.text("INSERT INTO smena.lives VALUES ('own', 'worker-0', 'here')"))
    clock = MovedClock(datetime(2026, 1, 1, tzinfo=UTC))
    look(Strikes(database), clock).put(came("good", clock=clock))
    clock.advance(inquest.SEEN_S)
    eventually(lambda: sent.ids() == {"good"})


def test_a_start_stands_from_before_a_job_runs_until_it_is_settled(database: Database, sent: Sent) -> None:
    strikes, seen = Strikes(database), []

    def start(attempt: Attempt) -> None:
        seen.append([one.life for one in strikes.of_job(attempt.job.id)[1]])
        sent.start(attempt)

    looking = Inquest(strikes, Own("own", "worker-0", "here"), sent.suspect, start, SYSTEM)
    looking.start()
    life = Life(database, "own", "worker-0", "here")
    life.start()
    attempt = came("one")
    attempt.delivery = _settled_on_tags(attempt)
    looking.put(attempt)
    eventually(lambda: seen == [["own"]])
    sent.started[0].delivery.ack()
    eventually(lambda: strikes.of_job("one")[1] == [])
    assert looking.stop(Deadline.within(PATIENCE_S, SYSTEM))
    assert life.stop(Deadline.within(PATIENCE_S, SYSTEM))


def _settled_on_tags(attempt: Attempt) -> Delivery:
    came_as = attempt.delivery
    return Delivery("q", b"", came_as.redelivered, came_as.received_at, b"\0\0", b"\0\0", Tags(), 1)


class Away(Strikes):
    """A register that cannot be asked at first."""

    def __init__(self, database: Database, refusals: int) -> None:
        super().__init__(database)
        self.refusals = refusals

    def find(self, attempts: Sequence[AttemptKey]) -> Found:
        self._refuse()
        return super().find(attempts)

    def begin(self, begun: Collection[Start]) -> None:
        self._refuse()
        super().begin(list(begun))

    def _refuse(self) -> None:
        self.refusals -= 1
        if self.refusals >= 0:
            raise DatabaseLost


def test_while_nobody_can_be_asked_nothing_that_came_back_starts(database: Database, look: Look, sent: Sent) -> None:
    away = Away(database, refusals=4)
    looking = look(away)
    for number in range(5):
        looking.put(came(f"k{number}"))
    eventually(lambda: sent.ids() == {f"k{number}" for number in range(5)})
    assert away.refusals < 0
    assert len(sent.started) == 5


def test_what_waits_goes_back_in_a_drain(database: Database, look: Look, sent: Sent) -> None:
    looking = look(Away(database, refusals=1_000_000))
    attempts = [came(f"k{number}") for number in range(5)]
    for attempt in attempts:
        looking.put(attempt)
    assert looking.finish(Deadline.within(10, SYSTEM))
    deliveries: list[Any] = [attempt.delivery for attempt in attempts]
    assert [delivery.told for delivery in deliveries] == [["back"]] * 5
    assert not sent.started
