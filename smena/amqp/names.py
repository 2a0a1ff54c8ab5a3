"""Name Smena's queues and exchanges, and find the way of a delay. Pure.

All names begin with a prefix (the setting `amqp.prefix`), so that a fleet never meets queues that a
plain Dramatiq project declared under the same logical names, nor those of another fleet.

A delay is the sum of the delay levels it passes: level ``n`` holds a message for ``2**n`` units of
64 ms. The routing key is the delay in bits, the highest level first, and then the target queue's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from smena.errors import DelayTooLong, Misconfigured
from smena.queue_name import fault_of

LEVELS: Final = 24
"""Fixed for ever: a bit's place in the routing key is its level."""

UNIT_MS: Final = 64
"""What level 0 holds; a power of two near the time that one hop between levels takes."""

SIGNIFICANT_BITS: Final = 8
"""A delay is rounded up to so many: less than 1 % longer, and at most 8 hops instead of 24."""

MAX_DELAY_MS: Final = ((1 << SIGNIFICANT_BITS) - 1 << LEVELS - SIGNIFICANT_BITS) * UNIT_MS
"""The longest delay that the levels hold: 12 days and 9 hours."""

_PARTITION: Final = re.compile(r"(.+)\.p(\d{2}|[1-9]\d{2,3})")


def check_queue_name(name: str) -> str:
    """Return the logical queue name if it can be one (`smena/queue_name.py`); raise `Misconfigured`."""
    if fault := fault_of(name):
        raise Misconfigured(fault, queue=repr(name)[:200])
    return name


def address(queue: str, partition: int | None) -> str:
    """Return the name of a queue or, of one that is cut into partitions, of that partition: ``stock.p07``.

    It stands wherever a queue's name does, from the outbox row to the name on the broker.
    """
    return queue if partition is None else f"{queue}.p{partition:02d}"


def addresses(queues: Iterable[str], partitions: Mapping[str, int]) -> list[str]:
    """Return the queues and, of those that ``partitions`` gives a number for, all partitions too."""
    queues = list(queues)
    return queues + [address(queue, number) for queue in queues for number in range(partitions.get(queue, 0))]


@lru_cache(maxsize=8192)
def parts(name: str) -> tuple[str, int | None]:
    """Return the queue and the partition that `address` made the name of."""
    found = _PARTITION.fullmatch(name)
    return (name, None) if found is None else (found[1], int(found[2]))


def check_address(name: str) -> str:
    """Return the name of a queue or of a partition if it can be one; raise `Misconfigured`."""
    check_queue_name(parts(name)[0])
    return name


def work_queue(prefix: str, queue: str) -> str:
    """Return the name of a work queue, or of one of its partitions, on the broker."""
    return f"{prefix}.{queue}"


def dead_queue(prefix: str, queue: str) -> str:
    """Return the name of the queue that holds the dead letters of a work queue; its partitions have one together."""
    return f"{prefix}.{parts(queue)[0]}.dead"


def lost_queue(prefix: str) -> str:
    """Return the name of the queue, and of its exchange, for delayed messages that found no target."""
    return f"{prefix}.lost"


def canary_queue(prefix: str) -> str:
    """Return the name of the queue to which canaries come back through the delay levels."""
    return f"{prefix}.canary"


def delay_exchange(prefix: str, level: int) -> str:
    """Return the name of a level's exchange, which is its queue's name too."""
    return f"{prefix}.delay.v1.{level:02d}"


def due_exchange(prefix: str) -> str:
    """Return the name of the exchange that a message reaches after its last level."""
    return f"{prefix}.delay.v1.due"


def due_pattern(queue: str) -> str:
    """Return the binding key of a target queue: exactly one ``*`` per level, then the name.

    A shorter ``#.mail`` would also match what is meant for ``eu.mail``.
    """
    return f"{'*.' * LEVELS}{queue}"


def delay_units(delay_ms: int) -> int:
    """Return the delay in units, rounded up to 8 significant bits; raise `DelayTooLong`."""
    units = max(1, -(-delay_ms // UNIT_MS))
    spare = max(0, units.bit_length() - SIGNIFICANT_BITS)
    rounded = -(-units >> spare) << spare
    if rounded.bit_length() > LEVELS:
        raise DelayTooLong(delay_ms=delay_ms, longest_ms=MAX_DELAY_MS)
    return rounded


def delay_route(prefix: str, delay_ms: int, queue: str) -> tuple[str, str]:
    """Return exchange and routing key by which a message reaches ``queue`` after ``delay_ms``.

    It enters at its highest level, so that short delays pass no exchange in vain.
    """
    units = delay_units(delay_ms)
    bits = ".".join(f"{units:0{LEVELS}b}")
    return delay_exchange(prefix, units.bit_length() - 1), f"{bits}.{queue}"


def level_route(prefix: str, level: int, queue: str) -> tuple[str, str]:
    """Return exchange and routing key of a way through just one level."""
    bits = ".".join(f"{1 << level:0{LEVELS}b}")
    return delay_exchange(prefix, level), f"{bits}.{queue}"


def delayed_target(routing_key: str) -> str | None:
    """Return the logical queue that a delay's routing key ends in, or None if it is no such key."""
    words = routing_key.split(".", LEVELS)
    if len(words) <= LEVELS or not set(words[:LEVELS]) <= {"0", "1"}:
        return None
    return words[LEVELS]
