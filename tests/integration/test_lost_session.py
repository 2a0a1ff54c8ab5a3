"""P06: a connection to PostgreSQL that is lost under a running job costs it no attempt, and not for ever."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from smena.book import Book, Registry
from smena.book import Retry as RetryAs
from smena.clock import SYSTEM, Deadline
from smena.context import Context
from smena.errors import DatabaseLost
from smena.guarantees.once import Once
from smena.job import Job
from smena.records.turns import Turn
from smena.settings.groups import Database as DatabaseSettings
from smena.settings.groups import Retry as RetryDefaults
from smena.settings.groups import Worker
from smena.store import faults, terms
from smena.store.database import Database
from smena.telemetry import events
from smena.telemetry.tally import Tally
from tests.fixtures.eventually import eventually
from tests.fixtures.fix_events import Listen
from tests.fixtures.no_recorder import NoRecorder
from tests.fixtures.noted_delivery import NotedDelivery
from workers.execution.binding import bind_actors
from workers.execution.coroutines import Coroutines
from workers.execution.seat import Seat
from workers.execution.slots import Slots
from workers.middleware.arguments import Arguments
from workers.middleware.attempt import Attempt
from workers.middleware.once import MOST_LOSSES, PROCESS_SPENT, OnceRing
from workers.middleware.outcome import DONE, Dead, Outcome, Retry, Returned
from workers.middleware.settle import CANCELLED, Settle
from workers.middleware.tracing import Tracing
from workers.middleware.verdict import Judge
from workers.process.mishaps import Mishaps

ENDS = "SELECT pg_terminate_backend(pg_backend_pid())"
book = Book("lost")


@book.actor(once=lambda key: key, retry=RetryAs(attempts=2))
def ends_once(session: Session, /, key: str) -> None:
    session.execute(sa.text(ENDS))


@book.actor()
def ends(session: Session, /, key: str) -> None:
    session.execute(sa.text(ENDS))


@book.actor(once=lambda key: key, retry=RetryAs(attempts=2))
async def aends_once(session: AsyncSession, /, key: str) -> None:
    await session.execute(sa.text(ENDS))


@book.actor(once=lambda key: key)
def loses_another(session: Session, /, key: str) -> None:
    raise DatabaseLost("some other server's")


@book.actor(queue="turns", partition_by=lambda key: key, partitions=1)
def loses_its_turn(session: Session, /, key: str) -> None:
    session.execute(sa.text("UPDATE smena.leases SET term = term + 1"))


@book.actor(retry=RetryAs(unexpected_attempts=1))
async def stands_by(session: AsyncSession, /, key: str) -> None:
    await session.execute(sa.text("SELECT pg_sleep(0.2)"))


@book.actor(retry=RetryAs(unexpected_attempts=1))
async def cancels_all(key: str) -> None:
    for task in asyncio.all_tasks():
        task.cancel(key)
    await asyncio.sleep(0)


class Bench:
    """The book bound to a real database; what settle would publish is noted."""

    def __init__(self, url: str) -> None:
        self.database = Database(DatabaseSettings(url=url), "test", 2)
        self.settled: list[Outcome] = []
        once, judge = Once(self.database), Judge(SYSTEM, [faults.translate])
        rings: list[Any] = [Tracing(lambda attempt: Context(attempt.job)), Settle(judge, self), Arguments()]
        ring = OnceRing(once, judge.classify)
        self._actors = bind_actors(Registry([book]), RetryDefaults(), rings, ring, Worker())

    def settle(self, attempt: Attempt, outcome: Any) -> None:  # noqa: ARG002 - the ring's protocol
        self.settled.append(outcome)

    def run(self, name: str, times: int) -> list[type[Outcome]]:
        """Run one attempt as its slot does, again and again; return what it came to each time."""
        attempt = Attempt(NotedDelivery(), Job(actor=name, queue="q", args=("k",)), self._actors[name])
        came: list[type[Outcome]] = []
        for _ in range(times):
            came.append(type(self._once(attempt)))
            attempt = attempt.again()
        return came

    def put(self, cell: Slots | Coroutines, name: str, number: int) -> Outcome:
        """Give one attempt to the threads or to the loop; return what was settled."""
        before = len(self.settled)
        cell.put(self.attempt(name, number))
        eventually(lambda: len(self.settled) > before)
        return self.settled[-1]

    def attempt(self, name: str, number: int, delivery: NotedDelivery | None = None) -> Attempt:
        """Return one attempt of an actor, by default on a delivery of its own."""
        job = Job(actor=name, queue="q", args=("k",), attempt=number)
        return Attempt(delivery or NotedDelivery(), job, self._actors[name])

    def run_in_turn(self, name: str) -> type[Outcome]:
        """Run one attempt under a partition's term."""
        with self.database.transaction() as connection:
            term = terms.take(connection, "partition:q:000", "us", 60)
        assert term is not None
        job = Job(actor=name, queue="q", args=("k",), partition=0, partition_key="k")
        return type(self._once(Attempt(NotedDelivery(), job, self._actors[name], Turn(term))))

    def _once(self, attempt: Attempt) -> Outcome:
        if not attempt.actor.is_async:
            outcome: Outcome = attempt.actor.call(attempt)
            return outcome

        async def run() -> Outcome:
            try:
                outcome: Outcome = await attempt.actor.async_call(attempt)
                return outcome
            finally:
                await self.database.aclose()
                self.database._aengine = None  # each run has an event loop of its own

        return asyncio.run(run())


@pytest.fixture
def bench(database_url: str) -> Iterator[Bench]:
    bench = Bench(database_url)
    yield bench
    bench.database.close()


@pytest.fixture
def no_database() -> Iterator[Bench]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    bench = Bench(f"postgresql://nobody@127.0.0.1:{port}/none")
    yield bench
    bench.database.close()


@pytest.mark.parametrize("name", ["lost.ends_once", "lost.ends", "lost.aends_once"])
def test_p06_a_job_whose_connection_was_taken_from_under_it_spends_no_attempt(bench: Bench, name: str) -> None:
    assert bench.run(name, 1) == [Returned]
    assert bench.settled == []


def test_a_job_that_ends_its_own_session_each_time_spends_an_attempt_in_the_end(bench: Bench) -> None:
    assert bench.run("lost.ends_once", MOST_LOSSES + 1) == [Returned] * MOST_LOSSES + [Retry]


@contextmanager
def threads(_: Bench) -> Iterator[Slots]:
    slots = Slots([Seat(0, NoRecorder(), Tally())])
    slots.start()
    yield slots
    assert slots.stop(Deadline.within(30, SYSTEM))


@contextmanager
def loop(bench: Bench) -> Iterator[Coroutines]:
    coroutines = Coroutines([Seat(0, NoRecorder(), Tally())])
    coroutines.start()
    yield coroutines
    coroutines.call(bench.database.aclose(), Deadline.within(30, SYSTEM))
    assert coroutines.stop(Deadline.within(30, SYSTEM))


@pytest.mark.parametrize(
    ("runs", "name"), [(threads, "lost.ends_once"), (loop, "lost.aends_once")], ids=["plain", "async"]
)
def test_a_job_that_ends_its_own_session_each_time_keeps_no_slot_for_ever(bench: Bench, runs: Any, name: str) -> None:
    with runs(bench) as cell:
        assert isinstance(bench.put(cell, name, 1), Retry)
        last = bench.put(cell, name, 2)
    assert isinstance(last, Dead)
    assert last.reason == "exhausted"


def test_p30_a_coroutine_that_cancels_all_costs_its_neighbours_nothing_and_ends_itself(
    bench: Bench, listen: Listen
) -> None:
    coroutines = Coroutines([Seat(slot, NoRecorder(), Tally()) for slot in range(3)])
    coroutines.start()
    told = listen(events.JOB_UNDECIDED)
    neighbours = [NotedDelivery(), NotedDelivery()]
    for delivery in neighbours:
        coroutines.put(bench.attempt("lost.stands_by", 1, delivery))
    eventually(lambda: coroutines.running() == len(neighbours))
    assert isinstance(bench.put(coroutines, "lost.cancels_all", 1), Dead)
    eventually(lambda: [delivery.told for delivery in neighbours] == [["ack"]] * 2)
    coroutines.call(bench.database.aclose(), Deadline.within(30, SYSTEM))
    assert coroutines.stop(Deadline.within(30, SYSTEM))
    assert len(bench.settled) == 1
    assert [one.fields["why"] for one in told] == [CANCELLED]  # once for all of them, within a minute


def test_a_database_that_cannot_be_asked_is_told_of_and_spends_no_attempt(no_database: Bench, listen: Listen) -> None:
    told = listen(events.JOB_UNDECIDED)
    assert no_database.run("lost.ends_once", MOST_LOSSES + 2) == [Returned] * (MOST_LOSSES + 2)
    assert no_database.settled == []
    assert [(one.fields["actor"], one.fields["why"]) for one in told] == [("lost.ends_once", DatabaseLost.code)]


@pytest.mark.parametrize(
    "error",
    [OSError(errno.EMFILE, "of files"), OSError(errno.ENOMEM, "of memory"), RuntimeError("can't start new thread")],
)
def test_p30_a_process_that_has_no_means_to_connect_spends_no_attempt_and_is_to_end(
    no_database: Bench, error: Exception
) -> None:
    def lend() -> NoReturn:
        raise error

    ended: list[str] = []
    mishaps = Mishaps(ended.append, list)
    ring = OnceRing(Once(no_database.database), Judge(SYSTEM, [faults.translate]).classify, lend, mishaps.end_if_spent)
    attempt = no_database.attempt("lost.ends", 1)
    call = ring.around(lambda _: DONE)
    assert [call(attempt), call(attempt)] == [Returned(PROCESS_SPENT)] * 2
    assert len(ended) == 1


def test_another_server_that_is_lost_costs_an_attempt(bench: Bench) -> None:
    assert bench.run("lost.loses_another", 1) == [Retry]


def test_an_effect_that_came_too_late_for_its_partitions_term_is_told_of(bench: Bench, listen: Listen) -> None:
    told = listen(events.KEY_STALE_EFFECT)
    bench.run_in_turn("lost.loses_its_turn")
    [one] = told
    assert (one.fields["queue"], one.fields["partition"], one.fields["term"]) == ("q", 0, 1)
