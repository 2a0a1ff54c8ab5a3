"""Build and join a worker process.

`preload` runs in the nursery, single-threaded, before any fork: it imports the books. `run` is the life
of one worker: build, start, say ready, report until a drain is asked for, drain, close.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final, Protocol

from smena.amqp import faults as amqp_faults
from smena.amqp.link import Connection, LinkThread
from smena.amqp.names import addresses
from smena.amqp.publisher import Publisher
from smena.book import Registry, bound, load_books
from smena.book.time_limit import LimitDefaults, time_policy
from smena.broker import SmenaBroker
from smena.clock import SYSTEM
from smena.context import Context
from smena.errors import DatabaseLost, Misconfigured
from smena.guarantees.once import Once
from smena.guarantees.shared_strikes import SharedStrikes
from smena.lifecycle import Service
from smena.publishing import Publishing
from smena.records.settlements import Settlements
from smena.records.strike import Strike
from smena.records.ticks import Endings
from smena.settings import Settings
from smena.store import faults as store_faults
from smena.store.database import Database
from smena.telemetry.metric import BUFFERED, CPU_STEPS_NOW, LOOP_LAG, POOL_WAIT, PUBLISHED, STALE_SETTLES
from smena.telemetry.tally import Board
from workers.broker import consumer_timeout, topology_check
from workers.broker.consumer import Consumer, Deliver
from workers.broker.prefetch import Prefetch
from workers.broker.source import work
from workers.execution import seat_figures
from workers.execution.admission import Admission
from workers.execution.binding import bind_actors
from workers.execution.brake import Brake
from workers.execution.claim_keeper import ClaimKeeper
from workers.execution.coroutines import Coroutines
from workers.execution.intake import Intake
from workers.execution.loop_watch import LoopWatch
from workers.execution.nextmessage import NextMessages
from workers.execution.ordered.groups import Desks
from workers.execution.ordered.outcomes import Outcomes
from workers.execution.outside import OUTSIDE_S
from workers.execution.pace import Pace
from workers.execution.pool import Pool
from workers.execution.recall import Recall
from workers.execution.resources import OpenResources
from workers.execution.seat import Seat
from workers.execution.settler import Settler
from workers.execution.slots import Slots
from workers.execution.sources import Sources
from workers.execution.tally_line import TallyLine
from workers.execution.tick_ends import TickEnds
from workers.execution.time_watch import TimeWatch
from workers.execution.worker import Worker
from workers.middleware.arguments import Arguments
from workers.middleware.attempt import Attempt
from workers.middleware.once import OnceRing
from workers.middleware.rings import Ring
from workers.middleware.settle import Settle, ack
from workers.middleware.settle import Settler as SettlesOutcomes
from workers.middleware.time_limit import TimeLimit
from workers.middleware.tracing import MakeContext, Tracing
from workers.middleware.verdict import Judge
from workers.process.child import Child
from workers.process.mishaps import Mishaps
from workers.process.orders import Orders
from workers.process.partition_figures import count_partitions
from workers.process.recorder import FlightRecorder
from workers.roles.pulse import Pulse
from workers.wiring import aftermath, ordered, shards
from workers.wiring import pool as pool_program
from workers.wiring.role import Role, Ticking, check_rights, check_schema, live, unreachable

POOL_SPARE: Final = 6
"""Database connections beside one for each thread: settler, recall, pulse, the keepers of claims and of keys, and one
more."""


def preload(settings: Settings) -> None:
    """Import the books, unless each worker is to do that itself; called once in the nursery, before it forks."""
    if settings.worker.preload:
        load_books(settings.books)


def run(settings: Settings, child: Child) -> int:
    """Be a worker until a drain is asked for and done; return the exit code."""
    process = WorkerProcess(settings, child)
    with ExitStack() as ends:
        ends.enter_context(bound(process.sender))
        ends.callback(count_partitions(process.board))
        return live(process.role(), settings, child)


class Body(Protocol):
    """What the parts need of the process that they are built in."""

    orders: Orders
    mishaps: Mishaps

    @property
    def name(self) -> str:
        """How the process is called in logs and metrics."""

    def recorder(self, slots: int) -> FlightRecorder:
        """Make the process's flight recorder."""

    def is_stuck_with(self, job_id: str, actor: str, attempt: int, slot: int) -> None:
        """Tell of a job that does not end, so that the process is replaced."""

    def on_struck(self, told: Callable[[Sequence[Strike]], object]) -> None:
        """Have ``told`` called with the strikes of this host, where there is no database."""


class WorkerProcess:
    """The parts of one worker process, built and joined; nothing runs before the role starts."""

    def __init__(self, settings: Settings, child: Body) -> None:
        self._settings = settings
        self._name = child.name
        self._mishaps = child.mishaps
        self._tell_stuck = child.is_stuck_with
        self.board = Board()
        self._registry = load_books(settings.books)
        self._queues = wanted_queues(self._registry, settings.worker.queues)
        self._database = open_database(settings, child.name)
        self._recorder = child.recorder(settings.worker.threads + settings.worker.concurrency)
        self._body = child
        self._orders = child.orders
        self._keeper: ClaimKeeper | None = None
        self._done: Callable[[Attempt], None] = ack
        self._tick_ends: TickEnds | None = None
        self._ordered: ordered.Parts | None = None
        self._build_link()
        self._build_runners()
        self._build_settling()
        self._build_actors()
        self._build_intake()

    def role(self) -> Role:
        """Return what the process is made of, as far as its life is concerned."""
        pace = Pace(self._seats, self._consumer.observe, lambda: self._link.tick, self._recorder)
        tally_line = TallyLine(self.board.snapshot)
        pulse = None if self._database is None else Pulse(self._database.ping, SYSTEM)
        services: list[Service | None] = [
            self._settler,
            self._tick_ends,
            pulse,
            *self._after.services,
            self._recall,
            self._keeper,
            *([] if self._ordered is None else self._ordered.services),
            self._pool,
            self._slots,
            self._coroutines,
            *self._watches,
            OpenResources(self._registry.resources, self._coroutines),
            pace,
            tally_line,
            self._time_watch,
        ]
        partitions = [] if self._ordered is None else [self._ordered.ordered]
        lines = [self._consuming, *([] if self._ordered is None else [self._ordered.connection])]
        self._worker = Worker(
            [*self._after.lives, self._link, *lines, self._publishing, self._publisher],
            [service for service in services if service is not None],
            settler=self._settler,
            runners=[*partitions, *self._before_start, self._slots, self._coroutines],
            source=Sources(self._consumer, partitions),
        )
        self.board.gauge(BUFFERED, lambda: {"": self._worker.waiting()})
        loops: dict[str, Ticking] = {
            "link": self._link,
            "settler": self._settler,
            "event-loop": self._coroutines,
            "pace": pace,
            "time-watch": self._time_watch,
            "pool-keeper": self._pool,
            **({} if self._recall is None else {"recall": self._recall}),
            **({} if self._keeper is None else {"claim-keeper": self._keeper}),
            **({} if self._tick_ends is None else {"tick-ends": self._tick_ends}),
            **({} if self._ordered is None else {"key-keeper": self._ordered.keeper}),
        }
        return Role(
            self._worker,
            loops,
            self.board,
            self._check,
            lambda: self._unreachable(pulse),
            partial(self._brake.hold, "paused"),
        )

    def _build_link(self) -> None:
        amqp = self._settings.amqp
        self._link = LinkThread()
        self._consuming = Connection(self._link, amqp, f"{self._name} consume")
        self._publishing = Connection(self._link, amqp, f"{self._name} publish")
        self._publisher = Publisher(self._publishing, amqp, SYSTEM)
        self.board.counter(PUBLISHED, self._publisher.results)
        self.sender = Publishing(self._publisher, self._database, self._settings.outbox.delay_via_outbox_s)
        SmenaBroker(sender=self.sender).bind(self._registry)

    def _build_runners(self) -> None:
        threads, coroutines = self._settings.worker.threads, self._settings.worker.concurrency
        self._seats = [Seat(slot, self._recorder, self.board.tally()) for slot in range(threads + coroutines)]
        seat_figures.show(self.board, self._seats)
        self._slots = Slots(self._seats[:threads])
        self._coroutines = Coroutines(self._seats[threads:], self._mishaps.in_loop, self._mishaps.out_of_loop)
        self._pool = Pool(self._settings.pool, lambda: pool_program.launch(self._orders), partial(self._hold, "pool"))
        self.board.gauge(CPU_STEPS_NOW, self._pool.standing)
        blocked_s = self._settings.telemetry.loop_blocked_s
        self._watches = [
            LoopWatch("event-loop", self._coroutines.post, blocked_s),
            LoopWatch("link", self._link.post, blocked_s),
        ]
        coroutine_seats = self._seats[threads:]
        self._time_watch = TimeWatch(
            self._seats[:threads],
            coroutine_seats,
            self._coroutines,
            self.board,
            self._is_stuck,
            outside_s=OUTSIDE_S + (0.0 if self._database is None else self._database.answer_within_s),
        )
        self.board.gauge(LOOP_LAG, lambda: {watch.watched: watch.worst_s() for watch in self._watches})

    def _build_settling(self) -> None:
        settlements = None if self._database is None else Settlements(self._database)
        backlog, hold = self._settings.worker.settle_backlog, partial(self._hold, "settle backlog")
        self._settler = Settler(self._publisher, settlements, backlog, hold)
        self._messages = NextMessages(self._publisher, self._settler, self._name, SYSTEM)
        if self._database is not None:
            self.board.gauge(POOL_WAIT, self._database.waits)
            self._tick_ends = TickEnds(Endings(self._database))
            self._done = self._tick_ends.done
        self._desks = Desks()
        outcomes = Outcomes(self._messages, self._desks)
        self._settles: SettlesOutcomes = outcomes
        after = aftermath.build(
            self._database,
            self._body,
            outcomes,
            self.board,
            self._start,
            self._done,
            self._settings.amqp.heartbeat_s,
            self._settings.supervisor.stopped_s,
            self._shared_strikes(),
        )
        self._recall = None if settlements is None else Recall(settlements, outcomes, after.put)
        self._before_start = [*([] if self._recall is None else [self._recall]), *after.runners]
        self._after = after

    def _shared_strikes(self) -> SharedStrikes | None:
        """Return where strikes of all hosts are kept if that is not PostgreSQL."""
        if self._database is not None or self._settings.redis.url is None:
            return None
        from smena.store.cache import Cache  # here, for Redis's client is a seventh of all that is imported

        return SharedStrikes(Cache(self._settings.redis, self._name))

    def _build_actors(self) -> None:
        judge = Judge(SYSTEM, [store_faults.translate, amqp_faults.translate], self._slots.ending)
        once = None if self._database is None else Once(self._database, self._settings.once.keep_s)
        outer: list[Ring] = [
            Tracing(self._context_maker(once)),
            Settle(judge, self._settles, self._done, self._look_at),
            TimeLimit(SYSTEM),
            Arguments(),
        ]
        ring = None if once is None else OnceRing(once, judge.classify, is_spent=self._mishaps.end_if_spent)
        self._actors = bind_actors(self._registry, self._settings.retry, outer, ring, self._settings.worker)
        if self._database is not None and ring is not None:
            self._actors, self._keeper = shards.join(
                self._actors,
                self._settings.batches,
                self._database,
                ring,
                life=self._orders.life,
                outer=outer[:2],
                judge=judge,
                make_context=self._context_maker(once),
                board=self.board,
                ending=self._slots.ending,
            )

    def _build_intake(self) -> None:
        look_up = self._after.put if self._recall is None else self._recall.put
        admission = Admission(look_up, self._start)
        intake = Intake(self._actors, self._messages, admission.admit, self._settings.worker.unknown_actor_s)
        self._build_ordered(admission)
        self._build_consumer(intake.deliver)

    def _build_ordered(self, admission: Admission) -> None:
        queues = {queue: count for queue, count in self._registry.partitions.items() if queue in self._queues}
        if queues and self._database is not None:
            self._ordered = ordered.build(
                self._settings,
                queues,
                self._database,
                self._link,
                self._desks,
                self._messages,
                self._settler,
                self._actors,
                admission.admit,
                self.board,
                self._name,
            )

    def _build_consumer(self, deliver: Deliver) -> None:
        prefix, worker = self._settings.amqp.prefix, self._settings.worker
        kinds = {actor.is_async for actor in self._registry.actors() if actor.queue in self._queues}
        places = worker.threads * (False in kinds) + worker.concurrency * (True in kinds)
        prefetch = Prefetch(places, worker.prefetch_max)
        self._consumer = Consumer(self._consuming, work(prefix, self._queues), deliver, prefix, prefetch)
        self.board.counter(STALE_SETTLES, lambda: {"": self._consumer.dropped()})
        self._brake = Brake(Sources(self._consumer, [] if self._ordered is None else [self._ordered.ordered]))

    def _context_maker(self, once: Once | None) -> MakeContext:
        resources = self._registry.resources
        transaction = None if once is None else once.transaction
        atransaction = None if once is None else once.atransaction
        steps = self._pool

        def make(attempt: Attempt) -> Context:
            return Context(
                attempt.job,
                actor=attempt.actor.name,
                transaction=transaction,
                atransaction=atransaction,
                resources=resources,
                steps=steps,
                watch=attempt.watch,
            )

        return make

    def _start(self, attempt: Attempt) -> None:
        (self._coroutines if attempt.actor.is_async else self._slots).put(attempt)

    def _is_stuck(self, seat: Seat, attempt: Attempt) -> None:
        """Take no more work in this process, and have it replaced."""
        job = attempt.job
        self._hold("a job is stuck", holding=True)
        self._worker.hand_back()
        self._tell_stuck(job.id, attempt.actor.name, job.attempt, seat.slot)

    def _look_at(self, error: BaseException) -> None:
        """End in order if a job failed for want of a descriptor: the next would fail of it too."""
        if isinstance(error, DatabaseLost) or (isinstance(error, OSError) and error.errno == errno.EMFILE):
            self._mishaps.end_if_out_of_descriptors()

    def _hold(self, reason: str, holding: bool) -> None:
        self._brake.hold(reason, holding)

    def _check(self) -> None:
        if self._database is not None:
            check_schema(self._database)
            check_rights(self._database)
        topology_check.check(self._settings.amqp, addresses(self._queues, self._registry.partitions))
        consumer_timeout.check(self._settings.amqp, longest_runs(self._registry, self._queues, self._settings.worker))

    def _unreachable(self, pulse: Pulse | None) -> list[str]:
        own = ["pool"] if self._pool.is_broken else []
        if not self._brake.is_on and not self._consumer.has_begun():
            own.append("queues")  # else another would be relieved before this one takes anything
        if pulse is not None:
            return unreachable(self._publishing, pulse) + own
        return own if self._publishing.is_up and not self._publishing.blocked else ["broker", *own]


def open_database(settings: Settings, name: str) -> Database | None:
    """Return the process's database, or None where none is configured."""
    if settings.database.url is None:
        return None
    return Database(settings.database, name, settings.worker.threads + POOL_SPARE)


def longest_runs(registry: Registry, queues: Sequence[str], defaults: LimitDefaults) -> list[consumer_timeout.Longest]:
    """Return how long an attempt of each actor on these queues may run."""
    return [
        consumer_timeout.Longest(actor.name, actor.queue, time_policy(actor.time_limit, defaults).hard_s, actor.place)
        for actor in registry.actors()
        if actor.queue in queues
    ]


def wanted_queues(registry: Registry, named: Sequence[str]) -> Sequence[str]:
    """Return the queues to work on: those named, or all of the loaded books."""
    known = registry.queues()
    strange = [queue for queue in named if queue not in known]
    if strange:
        raise Misconfigured("no loaded book has an actor on this queue", queues=", ".join(strange))
    return named or known
