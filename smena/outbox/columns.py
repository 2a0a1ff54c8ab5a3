"""Turn jobs into the columns of outbox rows, and refuse what could not be sent.

The door of the outbox: what the relay or the broker would refuse later is refused here, while the
sender can still roll back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from smena.amqp import codec
from smena.amqp.names import check_queue_name
from smena.errors import DelayTooLong, TooLarge, Unsendable
from smena.job import Job

MAX_BODY_BYTES: Final = 8 * 1024 * 1024
"""The default of the setting `amqp.max_body_bytes`; a relay with a lower bound parks what is above its own."""

_MAX_DELAY_S: Final = 10 * 365 * 86400.0
_NUL: Final = "\0"


def of(jobs: Sequence[Job], delay_s: float, ordering_key: str | None) -> dict[str, Any]:
    """Return the statement's parameters: an array per column, and what all rows share.

    Raise `Unsendable` (or its `TooLarge`, `DelayTooLong`) with the job's id and the field.
    """
    _check_delay(delay_s)
    _check_text("ordering_key", ordering_key or "", jobs[0].id)
    wires = [_wire(job) for job in jobs]
    return {
        "ids": [job.id for job in jobs],
        "attempts": [job.attempt for job in jobs],
        "snoozes": [job.snoozes for job in jobs],
        "actors": [job.actor for job in jobs],
        "queues": [job.queue for job in jobs],
        "bodies": [body for body, _ in wires],
        "properties": [properties for _, properties in wires],
        "ordering_key": ordering_key,
        "delay_s": delay_s,
    }


def _wire(job: Job) -> tuple[bytes, str]:
    for field, value in (("id", job.id), ("actor", job.actor), ("queue", job.queue)):
        _check_text(field, value, job.id)
    check_queue_name(job.queue)
    wire = codec.encode(job)
    if len(wire.body) > MAX_BODY_BYTES:
        raise TooLarge(job=job.id, bytes=len(wire.body), most=MAX_BODY_BYTES)
    return wire.body, codec.properties_to_json(wire.properties)


def _check_text(field: str, value: str, job_id: str) -> None:
    if _NUL in value:
        raise Unsendable("PostgreSQL text holds no NUL character", job=repr(job_id), field=field)


def _check_delay(delay_s: float) -> None:
    if not math.isfinite(delay_s) or delay_s < 0:
        raise Unsendable("a delay is a number of seconds, zero or more", delay_s=delay_s)
    if delay_s > _MAX_DELAY_S:
        raise DelayTooLong(delay_s=delay_s, most_s=_MAX_DELAY_S)
