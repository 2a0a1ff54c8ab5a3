"""Build and join what works the ordered queues of a worker process."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from sharding.partitions import Partitions
from smena.amqp.link import Connection, LinkThread
from smena.clock import SYSTEM
from smena.lifecycle import Service
from smena.records.held_keys import HeldKeys
from smena.settings import Settings
from smena.store.database import Database
from smena.telemetry.metric import (
    BLOCKED_KEYS,
    HELD_KEYS,
    HOT_KEYS,
    PARKED_JOBS,
    PARTITIONS_OWNED,
    STALE_SETTLES,
)
from smena.telemetry.tally import Board
from workers.broker.partition_consumer import PartitionConsumer
from workers.execution.intake import snoozes_within
from workers.execution.nextmessage import NextMessages
from workers.execution.ordered.decisions import Decisions
from workers.execution.ordered.floor import Floor
from workers.execution.ordered.groups import Desks, Group, Ordered
from workers.execution.ordered.keeper import Keeper
from workers.execution.settler import Settler
from workers.middleware.attempt import Attempt
from workers.middleware.bound import BoundActor

MOST_PREFETCH: Final = 32
"""Messages in hand of one partition: so many rows at most are written when it goes to another process."""
_SHORTEST_HEARTBEAT_S: Final = 1
_IDLE_OF_LEASE: Final = 0.8
"""Part of the lease after which the server ends an idle transaction: what a frozen owner has locked is free by then."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts: a connection of their own, the keeper, and what stands for all ordered queues."""

    connection: Connection
    keeper: Keeper
    ordered: Ordered

    @property
    def services(self) -> list[Service]:
        """Return what runs beside the connection."""
        return [self.keeper]


def build(
    settings: Settings,
    queues: Mapping[str, int],
    database: Database,
    link: LinkThread,
    desks: Desks,
    messages: NextMessages,
    settler: Settler,
    actors: Mapping[str, BoundActor],
    admit: Callable[[Attempt], None],
    board: Board,
    name: str,
) -> Parts:
    """Return the parts for these queues, each with its number of partitions."""
    lease_s = settings.partitions.lease_s
    idle_s = min(settings.database.idle_in_transaction_s, _IDLE_OF_LEASE * lease_s)
    heartbeat_s = max(_SHORTEST_HEARTBEAT_S, min(settings.amqp.heartbeat_s, int(lease_s / 3)))
    amqp = settings.amqp.model_copy(update={"heartbeat_s": heartbeat_s})
    connection = Connection(link, amqp, f"{name} partitions")
    prefetch = max(1, min(MOST_PREFETCH, settings.worker.prefetch_max // max(1, sum(queues.values()))))
    consumer = PartitionConsumer(connection, amqp.prefix, prefetch, free_s=lease_s)
    keeper = Keeper(HeldKeys(database, idle_s), desks.all, SYSTEM, crowd=max(1, prefetch // 2))
    floor = Floor(
        actors,
        admit,
        Decisions(messages),
        messages,
        settler.put,
        consumer,
        keeper.cue,
        SYSTEM,
        snoozes_within(settings.worker.unknown_actor_s),
        settings.partitions.parked_max,
        idle_s,
    )
    owner = secrets.token_hex(8)
    leases = {
        queue: Partitions(
            database,
            queue,
            count,
            Group(queue, count, owner, desks, floor, keeper, consumer),
            lease_s=lease_s,
            clock=SYSTEM,
            owner=owner,
            worker=name,
        )
        for queue, count in queues.items()
    }
    ordered = Ordered(list(leases.values()), desks, keeper, consumer)
    board.gauge(PARTITIONS_OWNED, lambda: {queue: float(len(held.owned())) for queue, held in leases.items()})
    board.counter(STALE_SETTLES, lambda: {"": consumer.dropped()})
    board.gauge(HELD_KEYS, ordered.held)
    board.gauge(BLOCKED_KEYS, ordered.blocked)
    board.gauge(PARKED_JOBS, ordered.parked)
    board.gauge(HOT_KEYS, keeper.hot_keys)
    return Parts(connection, keeper, ordered)
