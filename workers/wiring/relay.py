"""Build and join a relay process: outbox to broker."""

from __future__ import annotations

import os

from smena.amqp.link import Connection, LinkThread
from smena.amqp.publisher import Publisher
from smena.clock import SYSTEM, Deadline
from smena.errors import Misconfigured
from smena.lifecycle import Group, Service
from smena.outbox.claims import Claims
from smena.outbox.dispatch import outgoing_of
from smena.outbox.doorbell import Doorbell
from smena.settings import Settings
from smena.store.database import Database
from smena.telemetry.tally import Board
from workers.process.child import Child
from workers.roles.figures import count_events
from workers.roles.pulse import Pulse
from workers.roles.relay import Relay
from workers.wiring.role import Role, check_schema, live, unreachable

_CONNECTIONS = 3
"""Of the pool: relay and pulse use one each; the doorbell has its own beside it."""


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
    services: list[Service] = [link, publishing, publisher, pulse, relay]
    return Role(
        Group(name, services, lambda: Deadline.within(settings.worker.drain_s, SYSTEM)),
        {"link": link, "relay": relay, "pulse": pulse},
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


def _check_lease(settings: Settings) -> None:
    """Refuse a lease that could end while a publish may still be confirmed: every such row would go out twice."""
    if settings.outbox.lease_s <= settings.amqp.publish_timeout_s:
        raise Misconfigured(
            "outbox.lease_s must be longer than amqp.publish_timeout_s",
            lease_s=settings.outbox.lease_s,
            publish_timeout_s=settings.amqp.publish_timeout_s,
        )
