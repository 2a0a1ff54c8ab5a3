"""Build and join a relay process: outbox to broker, and the janitor's duties."""

from __future__ import annotations

import os

from sharding import upkeep as batch_upkeep
from smena.amqp.link import Connection, LinkThread
from smena.amqp.publisher import Publisher
from smena.clock import SYSTEM, Deadline
from smena.errors import Misconfigured
from smena.guarantees.solo import Solo
from smena.lifecycle import Group, Service
from smena.outbox import upkeep
from smena.outbox.claims import Claims
from smena.outbox.dispatch import outgoing_of
from smena.outbox.doorbell import Doorbell
from smena.records import once_keys
from smena.records.settlements import Settlements
from smena.records.strikes import Strikes
from smena.settings import Settings
from smena.store.database import Database
from smena.telemetry import events
from smena.telemetry.tally import Board
from workers.process.child import Child
from workers.roles.figures import count_events
from workers.roles.janitor import Duty, Janitor
from workers.roles.pulse import Pulse
from workers.roles.relay import Relay
from workers.wiring.role import Role, check_schema, live, unreachable

_CONNECTIONS = 4
"""Of the pool: relay, janitor and pulse use one each; doorbell and solo have their own beside it."""


def run(settings: Settings, child: Child) -> int:
    """Be a relay until a drain is asked for and done; return the exit code."""
    database = Database(settings.database, child.name, _CONNECTIONS)
    board = Board()
    stop_counting = count_events(board)
    try:
        return live(_role(settings, child.name, database, board), settings, child)
    finally:
        stop_counting()
        database.close()


def _role(settings: Settings, name: str, database: Database, board: Board) -> Role:
    _check_lease(settings)
    link = LinkThread()
    publishing = Connection(link, settings.amqp, f"{name} publish")
    publisher = Publisher(publishing, settings.amqp, SYSTEM)
    pulse = Pulse(database.ping, SYSTEM)
    relay = _relay(settings, database, publisher, publishing)
    publishing.listen(relay)
    janitor = Janitor(Solo(database, "janitor"), _duties(settings, database))
    services: list[Service] = [link, publishing, publisher, pulse, relay, janitor]
    return Role(
        Group(name, services, lambda: Deadline.within(settings.worker.drain_s, SYSTEM)),
        {"link": link, "relay": relay, "janitor": janitor, "pulse": pulse},
        board,
        lambda: check_schema(database),
        lambda: unreachable(publishing, pulse),
    )


def _relay(settings: Settings, database: Database, publisher: Publisher, publishing: Connection) -> Relay:
    return Relay(
        Claims(database, os.urandom(8).hex(), settings.outbox.lease_s),
        Doorbell(lambda: database.connect(autocommit=True), SYSTEM),
        publisher,
        lambda row: outgoing_of(row, settings.amqp.prefix),
        lambda: publishing.is_up and not publishing.blocked,
        SYSTEM,
        batch=settings.outbox.batch,
        poll_s=settings.outbox.poll_s,
    )


def _duties(settings: Settings, database: Database) -> list[Duty]:
    def outbox(limit: int) -> int:
        with database.transaction() as connection:
            return upkeep.prune(connection, settings.outbox.keep_s, limit)

    def keys(limit: int) -> int:
        with database.transaction() as connection:
            return once_keys.prune(connection, limit)

    def batches(limit: int) -> int:
        with database.transaction() as connection:
            return batch_upkeep.prune(connection, settings.batches.keep_s, limit)

    def shard_jobs(_limit: int) -> int:
        with database.transaction() as connection:
            for woken in batch_upkeep.wake(connection, settings.batches.stalled_s):
                events.emit(events.BATCH_WOKEN, batch=woken.batch, shards=woken.shards, queue=woken.queue)
        return 0

    settlements, strikes = Settlements(database), Strikes(database)
    return [
        Duty("outbox", outbox),
        Duty("settlements", lambda limit: settlements.prune(settings.settlements.keep_s, limit)),
        Duty("once_keys", keys),
        Duty("batches", batches),
        Duty("shard jobs", shard_jobs),
        Duty("strikes", lambda limit: strikes.prune(settings.evidence.keep_s, limit)),
    ]


def _check_lease(settings: Settings) -> None:
    """Refuse a lease that could end while a publish may still be confirmed: every such row would go out twice."""
    if settings.outbox.lease_s <= settings.amqp.publish_timeout_s:
        raise Misconfigured(
            "outbox.lease_s must be longer than amqp.publish_timeout_s",
            lease_s=settings.outbox.lease_s,
            publish_timeout_s=settings.amqp.publish_timeout_s,
        )
