"""Turn a job into a message and back: docs/reference/wire.md in code.

The body is Dramatiq's own JSON message, read strictly: whatever the bytes, `decode` gives a `Job` or raises
`Undecodable`. What JSON or PostgreSQL cannot hold (NUL, lone surrogates, NaN) is refused on both sides,
when sending with the place of the value. Properties may be missing altogether: the body alone is the job.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from smena.amqp.fieldtable import plain
from smena.amqp.names import parts
from smena.amqp.properties import Properties
from smena.amqp.unsendable import find_unsendable, holds_nul
from smena.errors import Undecodable, Unsendable
from smena.job import Job

MAX_COUNT: Final = 2**31 - 1
MAX_TIME_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999: beyond it no date can be made."""

_OWN: Final = "smena-"
_BROKERS: Final = ("x-death", "x-first-death-", "x-last-death-", "x-delivery-count", "x-acquired-count", "x-opt-")
_NOT_CARRIED: Final = (_OWN, *_BROKERS)
_ROUTING: Final = frozenset({"CC", "BCC"})
"""RabbitMQ routes copies to the queues that these name: they must not ride along on a republish."""

MAX_NAME_BYTES: Final = 255
"""Of UTF-8: names travel as AMQP's short strings, and by its id a job is found again after a crash."""

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME_BYTES)]


class _Body(msgspec.Struct):
    """Dramatiq's message; the order of the fields is that of Dramatiq's own encoder."""

    queue_name: _Name
    actor_name: _Name
    args: list[Any] | tuple[Any, ...]
    kwargs: dict[str, Any]
    options: dict[str, Any]
    message_id: _Name
    message_timestamp: Annotated[int, msgspec.Meta(ge=0, le=MAX_TIME_MS)]


class _IncomingBody(_Body):
    args: list[Any]


class Wire(msgspec.Struct, frozen=True):
    """A message as it is handed to the publisher."""

    body: bytes
    properties: Properties


_NAMES: Final = ("message_id", "actor_name", "queue_name")
_NAME_RULE: Final = f"a name is 1 to {MAX_NAME_BYTES} bytes of UTF-8"
_decoder: Final = msgspec.json.Decoder(_IncomingBody)


# --- sending ----------------------------------------------------------------------------------


def encode(job: Job) -> Wire:
    """Return the message of a job; raise `Unsendable` with the field's path for what it cannot hold."""
    return Wire(_encode_body(job), _properties(job))


def _encode_body(job: Job) -> bytes:
    options = job.options
    if job.attempt > 1 or "retries" in options:
        options = {**options, "retries": job.attempt - 1}
    message = _Body(job.queue, job.actor, job.args, job.kwargs, options, job.id, job.timestamp_ms)
    if name := _ill_name(message):
        raise Unsendable(_NAME_RULE, job=job.id, field=name)
    try:
        body = _encoder.encode(message)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Unsendable(str(error), job=job.id, field=find_unsendable(message)) from error
    # Both are rare, so the search is made only where the bytes hint at them: NaN and infinity become null.
    if b"null" in body or b"\\u0000" in body:
        path = find_unsendable(message)
        if path is not None:
            raise Unsendable("JSON or PostgreSQL cannot hold this value", job=job.id, field=path)
    return body


def _ill_name(message: _Body) -> str | None:
    """Return which name is none, is empty or is longer than it may be."""
    for place in _NAMES:
        name = getattr(message, place)
        if not isinstance(name, str) or not 1 <= _utf8_bytes(name) <= MAX_NAME_BYTES:
            return place
    return None


def _utf8_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _refuse(value: Any) -> Any:
    raise TypeError(f"not a JSON value: {type(value).__name__}")


_encoder: Final = msgspec.json.Encoder(enc_hook=_refuse)


def _properties(job: Job) -> Properties:
    headers: dict[str, Any] = {**job.headers} if job.headers else {}
    headers["smena-attempt"] = job.attempt
    headers["smena-first-enqueued-at"] = job.first_enqueued_at_ms or job.timestamp_ms
    if job.snoozes:
        headers["smena-snoozes"] = job.snoozes
    if job.request_id is not None:
        headers["smena-request-id"] = job.request_id
    if job.traceparent is not None:
        headers["smena-traceparent"] = job.traceparent
    if job.deadline_ms is not None:
        headers["smena-deadline"] = job.deadline_ms
    if job.partition_key is not None:
        headers["smena-partition-key"] = job.partition_key
    return Properties(
        content_type="application/json",
        headers=headers,
        delivery_mode=2,
        message_id=job.id,
        timestamp=job.timestamp_ms // 1000,
        type=job.actor,
    )


# --- receiving --------------------------------------------------------------------------------


def decode(body: bytes, properties: Properties, queue: str | None = None) -> Job:
    """Return the job of a message, or raise `Undecodable`.

    ``queue`` is the logical queue, or the partition, that it lies in; without it the body's own word is taken. Only the
    deadline and the partition key are read strictly among the headers, since to ignore them would change
    what the job means; others of a wrong type count as absent.
    """
    try:
        message = _decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise Undecodable(str(error)) from error
    # The decoder has counted characters; where all are ASCII they are bytes.
    if (not body.isascii() or b"\\u" in body) and (name := _ill_name(message)):
        raise Undecodable(f"{_NAME_RULE} - at `$.{name}`")
    if b"\\u0000" in body and holds_nul(message):
        raise Undecodable("a NUL character in a string")
    headers = properties.headers or {}
    get = headers.get
    first_enqueued_at_ms = _time(get("smena-first-enqueued-at"))
    queue, partition = parts(queue or message.queue_name)
    return Job(
        actor=message.actor_name,
        queue=queue,
        args=tuple(message.args),
        kwargs=message.kwargs,
        options=message.options,
        id=message.message_id,
        timestamp_ms=message.message_timestamp,
        attempt=_attempt(message.options.get("retries"), get("smena-attempt")),
        snoozes=_count(get("smena-snoozes")) or 0,
        first_enqueued_at_ms=message.message_timestamp if first_enqueued_at_ms is None else first_enqueued_at_ms,
        deadline_ms=_deadline(get("smena-deadline")),
        request_id=_word(get("smena-request-id")),
        traceparent=_word(get("smena-traceparent")),
        partition_key=_partition_key(get("smena-partition-key")),
        partition=partition,
        headers=_carried(headers) if headers else {},
    )


def holds_another_job(body: bytes, job: Job) -> bool:
    """Say whether a body that was kept under the job's id is of another job: another actor, other arguments.

    A body that cannot be read, or that names another id, is not known to be.
    """
    try:
        kept = _decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return False
    ours = (job.actor, list(job.args), job.kwargs)
    return kept.message_id == job.id and (kept.actor_name, kept.args, kept.kwargs) != ours


def _attempt(retries: object, header: object) -> int:
    """The body is the truth, as Dramatiq counts there; the header its copy."""
    count = _count(retries)
    if count is not None and count < MAX_COUNT:
        return count + 1
    return _count(header) or 1


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= MAX_COUNT else None


def _time(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= MAX_TIME_MS else None


def _word(value: object) -> str | None:
    return value if type(value) is str and len(value) <= 255 and "\0" not in value else None


def _deadline(value: object) -> int | None:
    time_ms = _time(value)
    if time_ms is None and value is not None:
        raise Undecodable("the header smena-deadline is no time in milliseconds")
    return time_ms


def _partition_key(value: object) -> str | None:
    word = _word(value)
    if value is not None and not word:
        raise Undecodable("the header smena-partition-key is no short text")
    return word


def _carried(headers: dict[str, Any]) -> dict[str, Any]:
    """Return the sender's own headers, as far as JSON can hold them."""
    carried: dict[str, Any] = {}
    for name, value in headers.items():
        if name.startswith(_NOT_CARRIED) or name in _ROUTING:
            continue
        try:
            carried[plain(name)] = plain(value)
        except ValueError:
            continue
    return carried


def carried_headers(properties: Properties) -> dict[str, Any]:
    """Return all headers that may go along on a republish: not the broker's, not those that route."""
    kept = {n: v for n, v in (properties.headers or {}).items() if n.startswith(_OWN) and n != "smena-seq"}
    return {**_carried(properties.headers or {}), **_plain_only(kept)}


def _plain_only(headers: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in headers.items() if type(value) in (str, int)}


# --- storing ----------------------------------------------------------------------------------


def properties_to_json(properties: Properties) -> str:
    """Return the properties as JSON text, for a column or a settlement."""
    return msgspec.json.encode(
        properties, enc_hook=int
    ).decode()  # of what a header may be it does not know `Timestamp`


def properties_from_json(text: str | bytes | dict[str, Any]) -> Properties:
    """Return the properties that `properties_to_json` wrote, from its text or the parsed object."""
    if isinstance(text, dict):
        return msgspec.convert(text, Properties)
    return msgspec.json.decode(text, type=Properties)
