"""Build and join an archivist process: dead letters to rows, the lost sent on, canaries, samples."""

from __future__ import annotations

from smena.amqp.link import Connection, LinkThread
from smena.amqp.names import dead_queue
from smena.amqp.publisher import Publisher
from smena.book import load_books
from smena.clock import SYSTEM, Deadline
from smena.guarantees.solo import Solo
from smena.lifecycle import Group, Service
from smena.outbox.shelf import Shelf
from smena.records.dead_letters import DeadLetters
from smena.settings import Settings
from smena.store.database import Database
from smena.telemetry.metric import POOL_WAIT, PUBLISHED, STALE_SETTLES
from smena.telemetry.tally import Board
from workers.broker import source
from workers.broker.canary import Canaries
from workers.broker.consumer import Consumer
from workers.broker.depths import Depths
from workers.broker.prefetch import Prefetch
from workers.broker.targets import Targets
from workers.process.child import Child
from workers.roles.archivist import BATCH, Archivist
from workers.roles.canary_duty import CanaryDuty
from workers.roles.consuming import Consuming
from workers.roles.figures import count_events
from workers.roles.inbox import sort_to
from workers.roles.lost_and_found import LostAndFound
from workers.roles.pulse import Pulse
from workers.roles.sampler import Sampler
from workers.wiring.role import Role, Watched, check_schema, live, unreachable

_CANARIES = 24
_CONNECTIONS = 4
"""Of the pool: archivist, lost-and-found, sampler and pulse use one each; the solo has its own beside it."""


def run(settings: Settings, child: Child) -> int:
    """Be an archivist until a drain is asked for and done; return the exit code."""
    database = Database(settings.database, child.name, _CONNECTIONS)
    board = Board()
    stop_counting = count_events(board)
    try:
        return live(_role(settings, child.name, database, board), settings, child)
    finally:
        stop_counting()
        database.close()


def _role(settings: Settings, name: str, database: Database, board: Board) -> Role:
    prefix, queues = settings.amqp.prefix, _queues(settings)
    link = LinkThread()
    consuming = Connection(link, settings.amqp, f"{name} consume")
    publishing = Connection(link, settings.amqp, f"{name} publish")
    publisher = Publisher(publishing, settings.amqp, SYSTEM)
    board.gauge(POOL_WAIT, database.waits)
    board.counter(PUBLISHED, publisher.results)
    targets, letters = Targets(publishing, prefix), DeadLetters(database)
    archivist = Archivist(letters, lambda queue: dead_queue(prefix, queue), SYSTEM)
    found = LostAndFound(
        publisher, lambda queue: targets.declare(queue, settings.amqp.publish_timeout_s), letters, prefix, SYSTEM
    )
    sampler = _sampler(settings, database, publishing, queues, board)
    pulse = Pulse(database.ping, SYSTEM)
    consumer = Consumer(
        consuming,
        [*source.dead_letters(prefix, queues), source.lost(prefix)],
        sort_to({"lost": found.deliver}, archivist.deliver),
        prefix,
        Prefetch(BATCH, BATCH),
    )
    duty = CanaryDuty(Solo(database, "canaries"))
    canaries = Canaries(publisher, prefix, SYSTEM, duty.is_ours)
    home = Consumer(consuming, [source.canary(prefix)], canaries.deliver, prefix, Prefetch(_CANARIES, _CANARIES))
    duty.live_in(home)
    board.counter(STALE_SETTLES, lambda: {"": consumer.dropped() + home.dropped()})
    loops: list[Watched] = [pulse, archivist, found, sampler, canaries]
    services: list[Service] = [
        link,
        consuming,
        publishing,
        publisher,
        duty,
        *loops,
        Consuming(home),
        Consuming(consumer),
    ]
    return Role(
        Group(name, services, lambda: Deadline.within(settings.worker.drain_s, SYSTEM)),
        {"link": link, **{loop.name: loop for loop in loops}},
        board,
        lambda: check_schema(database),
        lambda: unreachable(consuming, pulse) + ([] if consumer.is_subscribed() else ["queues"]),
    )


def _sampler(settings: Settings, database: Database, link: Connection, queues: list[str], board: Board) -> Sampler:
    depths = Depths(link)
    return Sampler(
        Solo(database, "sampler"),
        lambda names: depths.of(names, settings.amqp.publish_timeout_s),
        Shelf(database).waiting,
        queues,
        settings.amqp.prefix,
        board,
        partitions=load_books(settings.books).partitions,
    )


def _queues(settings: Settings) -> list[str]:
    """Return the queues of the loaded books, and those that are named beside them."""
    return sorted({*load_books(settings.books).queues(), *settings.worker.queues})
