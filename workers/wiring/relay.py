"""Build and join a relay process: outbox to broker."""

from __future__ import annotations

import os

from sharding.partitions import Partitions
from smena.amqp.link import Connection, LinkThread
from smena.amqp.publisher import Publisher
from smena.clock import SYSTEM, Deadline
from smena.errors import Misconfigured
from smena.lifecycle import Group, Service
from smena.outbox.claims import SLOTS, Claims
from smena.outbox.dispatch import outgoing_of
from smena.outbox.doorbell import Doorbell
from smena.settings import Settings
from smena.store.database import Database
from smena.telemetry import metric
from smena.telemetry.tally import Board
from workers.process.child import Child
from workers.process.partition_figures import count_partitions
from workers.roles.figures import count_events
from workers.roles.pulse import Pulse
from workers.roles.relay import Relay
from workers.roles.slots import GROUP, Slots
from workers.wiring.role import Role, check_schema, live, unreachable

_CONNECTIONS = 3
"""Of the pool: relay and pulse use one each; the doorbell and the partitions have their own beside it, one and two."""

_ATTENDED_WITHIN_S = 15.0
"""Workers that start beside the relay subscribe within that; a queue without any for longer may be mistyped."""


def run(settings: Settings, child: Child) -> int:
    """Be a relay until a drain is asked for and done; return the exit code."""
    database = Database(settings.database, child.name, _CONNECTIONS)
    board = Board()
    ends = count_events(board), count_partitions(board)
    try:
        return live(_role(settings, child.name, database, board), settings, child)
    finally:
        for stop_counting in ends:
            stop_counting()
        database.close()


def _role(settings: Settings, name: str, database: Database, board: Board) -> Role:
    _check_lease(settings)
    link = LinkThread()
    publishing = Connection(link, settings.amqp, f"{name} publish")
    publisher = Publisher(publishing, settings.amqp, SYSTEM, attended_within_s=_ATTENDED_WITHIN_S)
    board.gauge(metric.POOL_WAIT, database.waits)
    board.counter(metric.PUBLISHED, publisher.results)
    pulse = Pulse(database.ping, SYSTEM)
    relay, partitions = _relay(settings, name, database, publisher, publishing)
    publishing.listen(relay)
    board.gauge(metric.PARTITIONS_OWNED, lambda: {GROUP: float(len(partitions.owned()))})
    services: list[Service] = [link, publishing, publisher, pulse, relay, partitions]
    return Role(
        Group(name, services, lambda: Deadline.within(settings.worker.drain_s, SYSTEM)),
        {"link": link, "relay": relay, "partitions": partitions, "pulse": pulse},
        board,
        lambda: check_schema(database),
        lambda: unreachable(publishing, pulse),
    )


def _relay(
    settings: Settings, name: str, database: Database, publisher: Publisher, publishing: Connection
) -> tuple[Relay, Partitions]:
    claims = Claims(database, os.urandom(8).hex(), settings.outbox.lease_s)
    doorbell = Doorbell(lambda: database.connect(autocommit=True), SYSTEM)
    slots = Slots(lambda slot: partitions.fence_of(slot), doorbell.knock)
    lease_s = settings.partitions.lease_s
    partitions = Partitions(
        database, GROUP, SLOTS, slots, lease_s=lease_s, clock=SYSTEM, owner=claims.owner, worker=name
    )
    relay = Relay(
        claims,
        doorbell,
        publisher,
        lambda row: outgoing_of(row, settings.amqp.prefix),
        lambda: publishing.is_up and not publishing.blocked,
        SYSTEM,
        slots,
        batch=settings.outbox.batch,
        poll_s=settings.outbox.poll_s,
    )
    return relay, partitions


def _check_lease(settings: Settings) -> None:
    """Refuse a lease that could end while a publish may still be confirmed: every such row would go out twice."""
    if settings.outbox.lease_s <= settings.amqp.publish_timeout_s:
        raise Misconfigured(
            "outbox.lease_s must be longer than amqp.publish_timeout_s",
            lease_s=settings.outbox.lease_s,
            publish_timeout_s=settings.amqp.publish_timeout_s,
        )
