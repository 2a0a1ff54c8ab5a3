"""Read a dead letter from a message of any origin: any bytes make a row (P25).

A job is known by its id and attempt, so a letter that is brought twice is one row. What is no job is
known by a digest of its bytes and properties; what died because its id was another job's, by both.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import msgspec

from smena.amqp import codec
from smena.amqp.properties import Properties
from smena.clock import Clock
from smena.errors import IdReused, Undecodable
from smena.job import Job
from smena.records.dead_letters import DeadLetter
from workers.middleware.outcome import MOST_REASON_CHARS

UNEXPLAINED: Final = "unexplained"
"""The reason of a letter that says none: it was put into the dead queue by a stranger."""

_NO_WORD: Final = re.compile(r"[^\w.:-]+")
_DIGEST_CHARS: Final = 32
_UNREADABLE: Final = "unreadable"


class Message(Protocol):
    """What a delivery gives."""

    @property
    def queue(self) -> str: ...
    @property
    def body(self) -> bytes: ...
    @property
    def properties(self) -> Properties: ...


def letter_of(
    message: Message,
    *,
    source: str,
    clock: Clock,
    reason: str | None = None,
    error_text: str | None = None,
) -> DeadLetter:
    """Return the row; ``reason`` is for letters that die here and carry none of their own."""
    body, queue = message.body, message.queue
    properties = _readable(message)
    headers = properties.headers or {}
    job = _job(body, properties, queue)
    died_at = _time(headers.get("smena-died-at")) or clock.now()
    reason = reason or _reason(headers.get("smena-reason")) or _brokers_reason(headers) or UNEXPLAINED
    return DeadLetter(
        job_id=_row_id(job, reason, body) if job else _digest(body, properties, source),
        attempt=job.attempt if job else _attempt(headers),
        queue=queue,
        source=source,
        actor=job.actor if job else _text(properties.type),
        reason=reason,
        error_class=_text(headers.get("smena-error-class")),
        error_text=error_text or _text(headers.get("smena-error-text")),
        traceback=_text(headers.get("smena-traceback")),
        fingerprint=_text(headers.get("smena-fingerprint")),
        died_at=died_at,
        first_enqueued_at=_time(headers.get("smena-first-enqueued-at")),
        worker=_text(headers.get("smena-worker")),
        build=_text(headers.get("smena-build")),
        request_id=_text(headers.get("smena-request-id")),
        body=body,
        properties=_storable(properties),
    )


def _readable(message: Message) -> Properties:
    """Return the properties, or none where they do not add up: the body is kept all the same."""
    try:
        return message.properties
    except Undecodable:
        return Properties()


def _job(body: bytes, properties: Properties, queue: str) -> Job | None:
    try:
        return codec.decode(body, properties, queue)
    except Undecodable:
        return None


def _row_id(job: Job, reason: str, body: bytes) -> str:
    """Return the job's id, and something of its own for a job that shares it with another: both have a row."""
    return f"{job.id}~{hashlib.sha256(body).hexdigest()[:8]}" if reason == IdReused.code else job.id


def _digest(body: bytes, properties: Properties, source: str) -> str:
    digest = hashlib.sha256(source.encode())
    digest.update(repr(properties).encode("utf-8", "backslashreplace"))
    digest.update(body)
    return f"raw-{digest.hexdigest()[:_DIGEST_CHARS]}"


def _attempt(headers: Mapping[str, Any]) -> int:
    attempt = headers.get("smena-attempt")
    return attempt if type(attempt) is int and attempt > 0 else 1


def _brokers_reason(headers: Mapping[str, Any]) -> str | None:
    """Return the broker's own word for why it dead-lettered a message (rejected, expired, delivery_limit)."""
    match headers.get("x-death"):
        case [{"reason": str(reason)}, *_]:
            return _reason(f"broker_{reason}")
    return None


def _reason(value: Any) -> str | None:
    """Return a short word: letters are listed and counted by it, and anybody may have written it."""
    return _NO_WORD.sub("_", value)[:MOST_REASON_CHARS] if isinstance(value, str) and value else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _time(value: Any) -> datetime | None:
    if type(value) is not int or not 0 < value <= codec.MAX_TIME_MS:
        return None
    return datetime.fromtimestamp(value / 1000, UTC)


def _storable(properties: Properties) -> dict[str, Any]:
    try:
        return {name: value for name, value in msgspec.to_builtins(properties).items() if value is not None}
    except (TypeError, ValueError, RecursionError) as error:
        return {_UNREADABLE: repr(error)}
