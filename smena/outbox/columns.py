"""Turn jobs into the columns of outbox rows, and refuse what could not be sent.

The door of the outbox: what the relay or the broker would refuse later is refused here, while the
sender can still roll back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

from smena.amqp import codec
from smena.amqp.names import address, check_queue_name
from smena.amqp.properties import encode_properties
from smena.delay import Delay, seconds_of
from smena.errors import DelayTooLong, Misconfigured, TooLarge, Unsendable
from smena.job import NO_DELAY, Job, refuse_strangers
from smena.store.escapes import is_storable

MAX_BODY_BYTES: Final = 8 * 1024 * 1024
"""The default of the setting `amqp.max_body_bytes`; a relay with a lower bound parks what is above its own."""

_MAX_DELAY_S: Final = 10 * 365 * 86400.0
_LONGEST_KEY: Final = 255


def of(jobs: Sequence[Job], delay: Delay, ordering_key: str | None) -> dict[str, Any]:
    """Return the statement's parameters: an array per column, and what all rows share.

    Raise `Unsendable` (or its `TooLarge`, `DelayTooLong`) with the job's id and the field, `TypeError` for no job.
    """
    refuse_strangers(jobs)
    delay_s = _bounded(delay)
    _check_ordering_key(ordering_key)
    wires = [_wire(job) for job in jobs]
    if delay_s and (ordered := next((job for job in jobs if job.partition is not None), None)):
        raise Unsendable(NO_DELAY, job=ordered.id)
    return {
        "ids": [job.id for job in jobs],
        "attempts": [job.attempt for job in jobs],
        "snoozes": [job.snoozes for job in jobs],
        "actors": [job.actor for job in jobs],
        "queues": [address(job.queue, job.partition) for job in jobs],
        "bodies": [body for body, _ in wires],
        "properties": [properties for _, properties in wires],
        "ordering_keys": [ordering_key or _own_ordering_key(job) for job in jobs],
        "delay_s": delay_s,
    }


def _wire(job: Job) -> tuple[bytes, str]:
    wire = codec.encode(job)
    if len(wire.body) > MAX_BODY_BYTES:
        raise TooLarge(job=job.id, bytes=len(wire.body), most=MAX_BODY_BYTES)
    encode_properties(wire.properties)
    try:
        check_queue_name(job.queue)
    except Misconfigured as error:
        raise Unsendable(str(error), job=job.id) from error
    return wire.body, codec.properties_to_json(wire.properties)


def _own_ordering_key(job: Job) -> str | None:
    """Return what the rows of an ordered actor's key have in common: they leave in the order of their writing."""
    if job.partition is None or job.partition_key is None:
        return None
    key = f"{job.queue}:{job.partition_key}"
    return key if len(key) <= _LONGEST_KEY else f"{job.queue}:{hashlib.sha256(key.encode()).hexdigest()}"


def _check_ordering_key(key: str | None) -> None:
    if key is not None and not (0 < len(key) <= _LONGEST_KEY and is_storable(key)):
        raise Unsendable("an ordering key is 1 to 255 characters that PostgreSQL can hold", ordering_key=repr(key[:80]))


def _bounded(delay: Delay) -> float:
    delay_s = seconds_of(delay)
    if delay_s > _MAX_DELAY_S:
        raise DelayTooLong(delay_s=delay_s, most_s=_MAX_DELAY_S)
    return delay_s
