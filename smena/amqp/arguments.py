"""Say which queues, exchanges and bindings there are, with their arguments. Pure; docs/reference/topology.md.

The arguments are what RabbitMQ 3.10 accepts and never depend on the server's version: an upgrade would
make every redeclaration a mismatch (406). What newer servers add comes by policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from smena.amqp import names

NO_LIMIT: Final = 2**31 - 1
"""Every way of handing back raises the broker's delivery count, so it must never decide; -1 means the
opposite on 3.10, and no limit at all makes 3.10 requeue at the tail and 4.x count to 20."""

_QUORUM: Final[Mapping[str, Any]] = {"x-queue-type": "quorum", "x-overflow": "reject-publish"}
_HELD: Final[Mapping[str, Any]] = {**_QUORUM, "x-delivery-limit": NO_LIMIT}
_DEAD_LETTERING: Final[Mapping[str, Any]] = {"x-dead-letter-strategy": "at-least-once"}


@dataclass(frozen=True, slots=True)
class Queue:
    """A durable queue."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Exchange:
    """A durable exchange."""

    name: str
    kind: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Binding:
    """From an exchange to a queue, or to another exchange."""

    source: str
    target: str
    key: str
    to_exchange: bool = False


Declaration = Queue | Exchange | Binding


def work_queue(prefix: str, queue: str) -> tuple[Declaration, ...]:
    """Return a work queue, or one of its partitions, and, before it, the queue of its dead letters.

    A partition has one consumer at a time, whatever happens: who subscribes beside its owner gets nothing.
    """
    dead = names.dead_queue(prefix, queue)
    arguments = {
        **_HELD,
        **_DEAD_LETTERING,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": dead,
    }
    if names.parts(queue)[1] is not None:
        arguments["x-single-active-consumer"] = True
    return Queue(dead, _HELD), Queue(names.work_queue(prefix, queue), arguments)


def lost(prefix: str) -> tuple[Declaration, ...]:
    """Return where a delayed message goes that finds no target: exchange, queue and binding of one name."""
    name = names.lost_queue(prefix)
    return Exchange(name, "fanout"), Queue(name, _HELD), Binding(name, name, "")


def delays(prefix: str) -> tuple[Declaration, ...]:
    """Return all levels, lowest first, so that every exchange and queue finds its targets in place.

    A level's exchange looks at its own bit: 1 goes into the level's queue, 0 on to the next lower level.
    Without the alternate exchange one message that is due and has no target would hold its level's
    internal window and stop all delays in it.
    """
    alternate = {"alternate-exchange": names.lost_queue(prefix)}
    below = names.due_exchange(prefix)
    plan: list[Declaration] = [*lost(prefix), Exchange(below, "topic", alternate)]
    for level in range(names.LEVELS):
        name = names.delay_exchange(prefix, level)
        stars = "*." * (names.LEVELS - 1 - level)
        waiting = {
            **_QUORUM,
            **_DEAD_LETTERING,
            "x-dead-letter-exchange": below,
            "x-message-ttl": names.UNIT_MS << level,
        }
        plan += (
            Exchange(name, "topic", alternate),
            Queue(name, waiting),
            Binding(name, name, f"{stars}1.#"),
            Binding(name, below, f"{stars}0.#", to_exchange=True),
        )
        below = name
    return tuple(plan)


def delay_target(prefix: str, queue: str) -> tuple[Declaration, ...]:
    """Return the binding by which a delayed message reaches its queue when due."""
    return (Binding(names.due_exchange(prefix), names.work_queue(prefix, queue), names.due_pattern(queue)),)


def canary(prefix: str) -> tuple[Declaration, ...]:
    """Return the queue to which canaries come back, and its binding."""
    name = names.canary_queue(prefix)
    return Queue(name, _HELD), Binding(names.due_exchange(prefix), name, names.due_pattern("canary"))
