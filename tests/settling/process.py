"""One worker process, joined from the real parts, whose threads the test turns by hand."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen

from smena.amqp import faults as amqp_faults
from smena.amqp.publisher import Publisher
from smena.book import Registry, bound
from smena.clock import Clock
from smena.context import Context
from smena.guarantees.once import Once
from smena.publishing import Publishing
from smena.records.settlements import Settlements
from smena.settings.groups import Amqp, Worker
from smena.settings.groups import Database as DatabaseSettings
from smena.settings.groups import Retry as RetryDefaults
from smena.store import faults as store_faults
from smena.store.database import Database
from smena.store.held import HoldableConnection
from smena.telemetry import events
from smena.telemetry.tally import Tally
from tests.fixtures.no_recorder import NoRecorder
from tests.settling.book import book
from workers.broker.consumer import Consumer
from workers.broker.prefetch import Prefetch
from workers.broker.source import work
from workers.execution.admission import Admission
from workers.execution.binding import bind_actors
from workers.execution.intake import Intake
from workers.execution.nextmessage import NextMessages
from workers.execution.recall import Recall
from workers.execution.seat import UNKNOWN, Seat
from workers.execution.settler import Settler
from workers.middleware.arguments import Arguments
from workers.middleware.attempt import Attempt
from workers.middleware.once import OnceRing
from workers.middleware.outcome import Returned
from workers.middleware.rings import Ring
from workers.middleware.settle import Settle
from workers.middleware.time_limit import TimeLimit
from workers.middleware.tracing import Tracing
from workers.middleware.verdict import Judge

RV = TypeVar("RV")
QUEUE = "settling"
_NEVER = threading.Event()


class Cable:
    """The process's way to PostgreSQL, on which a question or the answer to it may be lost."""

    def __init__(self, on_effect: Callable[[str], None]) -> None:
        self.asked = 0
        self.is_severed = False
        self._on_effect = on_effect
        self._loses: dict[int, str] = {}

    def lose(self, what: str, after: int) -> None:
        """Lose the ``question`` or the ``answer`` after so many more."""
        self._loses[self.asked + after] = what

    def mend(self) -> None:
        """Lose nothing more."""
        self._loses.clear()

    def carry(self, ask: Callable[[], RV], connection: psycopg.Connection[Any]) -> RV:
        """Ask the server, unless the question is lost; return its answer, unless that is."""
        self._on_effect("a question to PostgreSQL")
        lost = self._loses.pop(self.asked, "")
        self.asked += 1
        if not self.is_severed and lost != "question":
            answer = ask()
            if not lost:
                return answer
        connection.pgconn.finish()
        raise psycopg.OperationalError("the connection was lost")


class CabledDatabase(Database):
    """The real database at the end of a cable."""

    def __init__(self, url: str, cable: Cable) -> None:
        super().__init__(DatabaseSettings(url=url), "settling", 2)
        self._cable = cable
        self._opened: list[HoldableConnection] = []

    def connect(self, *, autocommit: bool = False) -> HoldableConnection:
        """Open a connection; what is asked on it goes by the cable."""
        cable = self._cable

        class Cabled(HoldableConnection):
            def wait(self, gen: PQGen[RV], *given: Any, **more: Any) -> RV:
                return cable.carry(lambda: super(Cabled, self).wait(gen, *given, **more), self)

        self._opened.append(Cabled.connect(self._conninfo, autocommit=autocommit))
        return self._opened[-1]

    def close(self) -> None:
        """Close all, also what nobody holds since its process died."""
        super().close()
        for connection in self._opened:
            connection.close()


class Process:
    """What a worker process does with its deliveries, one step at a time."""

    def __init__(self, amqp: Amqp, database: Database, consuming: Any, publishing: Any, clock: Clock) -> None:
        self.waiting: deque[Attempt] = deque()
        self._clock = clock
        self._publisher = Publisher(publishing, amqp, clock)
        settlements = Settlements(database)
        self.settler = Settler(self._publisher, settlements, 1000, lambda _holding: None, clock)
        messages = NextMessages(self._publisher, self.settler, "settling", clock)
        self.recall = Recall(settlements, messages, self.waiting.append)
        judge = Judge(clock, [store_faults.translate, amqp_faults.translate])
        once = Once(database)
        context = lambda attempt: Context(attempt.job, transaction=once.transaction)  # noqa: E731
        rings: list[Ring] = [Tracing(context), Settle(judge, messages), TimeLimit(clock), Arguments()]
        unlimited = Worker(time_limit_s=0)  # else what is left by the machine's clock would be a limit of statements
        actors = bind_actors(Registry([book]), RetryDefaults(), rings, OnceRing(once, judge.classify), unlimited)
        admission = Admission(self.recall.put, self.waiting.append)
        intake = Intake(actors, messages, admission.admit, unknown_actor_s=2)
        self.consumer = Consumer(consuming, work(amqp.prefix, [QUEUE]), intake.deliver, amqp.prefix, Prefetch(8, 16))
        self._sender = Publishing(self._publisher, database, 900)
        self._seat = Seat(0, NoRecorder(), Tally())
        self._seat.sit_down()
        self._publisher.start()
        self.consumer.start()

    def run(self, chosen: int) -> None:
        """Run one of the attempts that wait; what could not be decided waits again."""
        if not self.waiting:
            return
        self.waiting.rotate(chosen % len(self.waiting))
        attempt = self.waiting.popleft()
        with bound(self._sender):
            outcome = self._seat.run(attempt)
        if isinstance(outcome, Returned) and attempt.delivery.alive():
            if outcome.why == UNKNOWN:
                attempt.delivery.give_back()
            else:
                self.waiting.append(attempt.again())

    def look_up(self) -> None:
        """Let the recall look at what waits there."""
        self._round(self.recall)

    def settle(self) -> None:
        """Let the settler make one round."""
        self._round(self.settler)

    def hand_back(self) -> None:
        """Give back what has not started, as a drain does."""
        while self.waiting:
            self.waiting.popleft().delivery.give_back()

    def _round(self, loop: Settler | Recall) -> None:
        """Make one round, as the loop's thread does: an error of it is told, and the next round comes."""
        loop._cue.set()
        try:
            loop._round(_NEVER)
        except Exception as error:  # noqa: BLE001 - the loop's own seam (`smena.lifecycle.Loop`)
            events.loop_failed(loop.name, error)
