"""Name what can be consumed: the queue on the broker, its short name here, and how it is declared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from smena.amqp import arguments, names
from smena.amqp.arguments import Declaration


@dataclass(frozen=True, slots=True)
class Source:
    """A queue to consume. ``name`` is what its deliveries carry as ``queue``."""

    name: str
    on_broker: str
    plan: tuple[Declaration, ...]


def work(prefix: str, queues: Iterable[str]) -> list[Source]:
    """Return the work queues of these logical names; each comes with its dead-letter queue."""
    return [
        Source(queue, names.work_queue(prefix, queue), arguments.work_queue(prefix, names.check_queue_name(queue)))
        for queue in queues
    ]


def partition_source(prefix: str, queue: str, number: int) -> Source:
    """Return one partition of an ordered queue."""
    name = names.check_address(names.address(queue, number))
    return Source(name, names.work_queue(prefix, name), arguments.work_queue(prefix, name))


def dead_letters(prefix: str, queues: Iterable[str]) -> list[Source]:
    """Return the dead-letter queues of these logical names."""
    return [
        Source(queue, names.dead_queue(prefix, queue), arguments.work_queue(prefix, names.check_queue_name(queue)))
        for queue in queues
    ]


def lost(prefix: str) -> Source:
    """Return the queue of delayed messages that found no target."""
    return Source("lost", names.lost_queue(prefix), arguments.lost(prefix))


def canary(prefix: str) -> Source:
    """Return the queue to which canaries come back; declares the delay levels as well."""
    return Source("canary", names.canary_queue(prefix), arguments.delays(prefix) + arguments.canary(prefix))
