"""Say on a dead letter why, when and where it died, in headers cut to what RabbitMQ bears."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from smena.amqp.codec import carried_headers
from smena.amqp.fieldtable import encode_table
from smena.amqp.properties import MAX_HEADERS_BYTES, Properties

MAX_ERROR_TEXT_BYTES: Final = 2 * 1024
MAX_TRACEBACK_BYTES: Final = 16 * 1024
_MAX_WORD_BYTES: Final = 255
_CUT: Final = "\n[… cut …]\n"


@dataclass(frozen=True, slots=True)
class Death:
    """The last facts of a job; texts may have any length and hold anything."""

    reason: str
    died_at_ms: int
    error_class: str = ""
    error_text: str = ""
    traceback: str = ""
    fingerprint: str = ""
    worker: str = ""
    build: str = ""
    job_id: str | None = None
    actor: str | None = None
    attempt: int | None = None


def dead_headers(death: Death) -> dict[str, Any]:
    """Return the headers of a death; empty facts are left out."""
    headers: dict[str, Any] = {
        "smena-reason": bare(death.reason, _MAX_WORD_BYTES),
        "smena-died-at": death.died_at_ms,
        "smena-error-class": bare(death.error_class, _MAX_WORD_BYTES),
        "smena-error-text": bare(death.error_text, MAX_ERROR_TEXT_BYTES),
        "smena-traceback": bare(death.traceback, MAX_TRACEBACK_BYTES),
        "smena-fingerprint": bare(death.fingerprint, _MAX_WORD_BYTES),
        "smena-worker": bare(death.worker, _MAX_WORD_BYTES),
        "smena-build": bare(death.build, _MAX_WORD_BYTES),
    }
    if death.attempt is not None:
        headers["smena-attempt"] = death.attempt
    return {name: value for name, value in headers.items() if value != ""}


def dead_properties(properties: Properties, death: Death) -> Properties:
    """Return the properties of the dead letter of a message that came with ``properties``.

    Kept are the sender's description of the body and his headers, as far as there is room. Not kept is what
    would act on the dead letter: expiration, reply-to, user-id, the headers of the broker.
    """
    return Properties(
        content_type=properties.content_type,
        content_encoding=properties.content_encoding,
        headers=_with_room(carried_headers(properties), dead_headers(death)),
        delivery_mode=2,
        message_id=_word(death.job_id or properties.message_id),
        timestamp=properties.timestamp,
        type=_word(death.actor or properties.type),
    )


def _with_room(carried: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Join both; of the sender's headers the largest go first when there is no room for all."""
    left = MAX_HEADERS_BYTES - len(encode_table(own))
    sizes = {name: len(encode_table({name: value})) for name, value in carried.items()}
    kept = {}
    for name in sorted(carried, key=sizes.__getitem__):
        left -= sizes[name]
        if left < 0:
            break
        kept[name] = carried[name]
    return {**kept, **own}


def bare(text: str, most_bytes: int) -> str:
    """Return text that AMQP, JSON and PostgreSQL all hold: escaped where they cannot, cut in the middle.

    The end stays, since it is where a traceback names its error.
    """
    data = text.replace("\0", "\\x00").encode("utf-8", "backslashreplace")
    if len(data) <= most_bytes:
        return data.decode()
    cut = _CUT.encode() if most_bytes > 8 * len(_CUT) else b""
    head = (most_bytes - len(cut)) // 4
    tail = most_bytes - len(cut) - head
    return (data[:head] + cut + data[-tail:]).decode("utf-8", "ignore")


def _word(text: str | None) -> str | None:
    return None if text is None else bare(text, _MAX_WORD_BYTES)
