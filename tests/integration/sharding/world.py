"""One worker process as far as shard jobs go: real rings, real database, and no broker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from sharding import batches
from sharding.batches import SHARD
from smena.book import Registry, RetryPolicy
from smena.clock import SYSTEM, Deadline
from smena.context import Context
from smena.guarantees.once import Once
from smena.job import Job, new_id
from smena.settings.groups import Batches, Worker
from smena.settings.groups import Retry as RetryDefaults
from smena.store import faults
from smena.store.database import Database
from smena.telemetry.tally import Board
from tests.fixtures.eventually import PATIENCE_S
from tests.fixtures.noted_delivery import NotedDelivery
from workers.execution.binding import bind_actors
from workers.middleware.attempt import Attempt
from workers.middleware.once import OnceRing
from workers.middleware.outcome import Outcome, Snooze
from workers.middleware.rings import Ring
from workers.middleware.settle import Settle
from workers.middleware.tracing import Tracing
from workers.middleware.verdict import Judge
from workers.wiring import shards

from .book import book

__all__ = ["Process", "RetryPolicy", "process"]


class Settler:
    """Settles nothing: the test reads the outcomes."""

    def settle(self, attempt: Attempt, outcome: object) -> None:
        """Take note of nothing."""


class Process:
    """The part of a worker process that runs shard jobs; ``ending`` is set where its drain begins."""

    def __init__(self, database: Database, **settings: float) -> None:
        self.database = database
        self.board = Board()
        self.ending = threading.Event()
        judge = Judge(SYSTEM, [faults.translate], self.ending.is_set)
        once = Once(database)

        def make_context(attempt: Attempt) -> Context:
            return Context(attempt.job, actor=attempt.actor.name, transaction=once.transaction)

        outer: list[Ring] = [Tracing(make_context), Settle(judge, Settler())]
        ring = OnceRing(once, judge.classify)
        defaults = RetryDefaults(base_s=0.01, cap_s=0.02)
        given = {"turn_s": 5.0, "slice_s": 0.2} | settings
        self.actors, self.keeper = shards.join(
            bind_actors(Registry([book]), defaults, outer, ring, Worker()),
            Batches.model_validate(given),
            database,
            ring,
            life=new_id(),
            outer=outer,
            judge=judge,
            make_context=make_context,
            board=self.board,
            ending=self.ending.is_set,
        )

    def turn(self, batch: int, epoch: int = 1) -> Outcome:
        """Run one shard job of the batch once."""
        return self.given(SHARD, batch, epoch)

    def given(self, name: str, *args: object) -> Outcome:
        """Run a shard job of that actor with whatever arguments its message has."""
        actor = self.actors[name]
        outcome: Outcome = actor.call(Attempt(NotedDelivery(), Job(actor=name, queue="works", args=args), actor))
        return outcome

    def work(self, batch: int, threads: int = 4, epoch: int = 1) -> None:
        """Run shard jobs until they are done with the batch, however often they come back."""
        give_up = SYSTEM.monotonic() + PATIENCE_S

        def until_done(_: int) -> None:
            while isinstance(outcome := self.turn(batch, epoch), Snooze):
                assert SYSTEM.monotonic() < give_up, "the batch does not come to its end"
                self.ending.wait(min(outcome.delay_s, 0.05))

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(until_done, range(threads)))

    def status(self, batch: int) -> batches.Progress:
        """Return how far the batch is."""
        with self.database.session() as session:
            return batches.status(session, batch)


@contextmanager
def process(database: Database, **settings: float) -> Iterator[Process]:
    """Run such a process for the block; ``settings`` are those of batches."""
    one = Process(database, **settings)
    one.keeper.start()
    try:
        yield one
    finally:
        one.ending.set()
        assert one.keeper.stop(Deadline.within(10, SYSTEM))
