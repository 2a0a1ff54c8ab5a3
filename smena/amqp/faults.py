"""Translate what pika raises and the broker answers into the taxonomy of `smena.errors`."""

from __future__ import annotations

import re
from typing import Any, Final

from pika import exceptions

from smena.errors import (
    BrokerBlocked,
    BrokerLost,
    NoQueue,
    PublishRefused,
    SmenaError,
    TooLarge,
    TopologyMismatch,
    Unroutable,
    Unsendable,
)

NOT_FOUND: Final = 404
PRECONDITION_FAILED: Final = 406

FAULTS: Final[tuple[tuple[type[BaseException], type[SmenaError]], ...]] = (
    (exceptions.ConnectionBlockedTimeout, BrokerBlocked),
    (exceptions.AMQPConnectionError, BrokerLost),
    (exceptions.UnroutableError, Unroutable),
    (exceptions.NackError, PublishRefused),
    (exceptions.AMQPChannelError, BrokerLost),
    (exceptions.BodyTooLongError, TooLarge),
    (exceptions.ShortStringTooLong, Unsendable),
    (exceptions.AMQPError, BrokerLost),
)
"""Which class of the taxonomy stands for which of pika's; the first that fits counts."""

_INEQUIVALENT: Final = re.compile(
    r"inequivalent arg '(?P<argument>[^']+)' for (?P<kind>queue|exchange) '(?P<name>[^']+)'.*?: "
    r"received (?P<wanted>.+?) but current is (?P<actual>.+)",
    re.DOTALL,
)
_VALUE: Final = re.compile(r"(?:the value )?'(.*?)'(?: of type '.*')?", re.DOTALL)
_WAY_OUT: Final = "see `smena topology diff`; drain and delete what is there, or give this fleet another amqp.prefix"


def translate(error: BaseException) -> SmenaError | None:
    """Return the error in the taxonomy, or None for what is not pika's."""
    for kind, ours in FAULTS:
        if isinstance(error, kind):
            return ours(why_lost(error))
    return None


def why_lost(error: BaseException) -> str:
    """Return the innermost reason of a failed or lost connection, in a few words."""
    while inner := _inner(error):
        error = inner
    text = str(error) or "no reason given"
    return f"{type(error).__name__}: {text}"[:300]


def _inner(error: Any) -> BaseException | None:
    several = getattr(error, "exceptions", None)
    if several:
        return several[-1]  # type: ignore[no-any-return]
    inner = getattr(error, "exception", None)
    return inner if isinstance(inner, BaseException) else None


def refused_declaration(error: BaseException, name: str) -> SmenaError:
    """Return why the broker closed the channel on which ``name`` was declared."""
    if not isinstance(error, exceptions.ChannelClosedByBroker):
        return BrokerLost(why_lost(error))
    text = str(error.reply_text)
    found = _INEQUIVALENT.search(text)
    if found:
        facts = {found["kind"]: found["name"], "argument": found["argument"]}
        facts |= {"wanted": _value(found["wanted"]), "actual": _value(found["actual"])}
        return TopologyMismatch(_WAY_OUT, **facts)
    if error.reply_code == NOT_FOUND:
        return NoQueue(text, name=name)
    return TopologyMismatch(text, name=name)


def refused_publish(error: BaseException, exchange: str, routing_key: str) -> SmenaError:
    """Return why the broker closed the channel (or connection) on which just this message was under way."""
    code = getattr(error, "reply_code", 0)
    text = str(getattr(error, "reply_text", error))
    if code == NOT_FOUND:
        return Unroutable(text, exchange=exchange, routing_key=routing_key)
    if code == PRECONDITION_FAILED and "size" in text:
        return TooLarge(text)
    if code == PRECONDITION_FAILED:  # a property that it can never take: another user's id, an expiration of no number
        return Unsendable(text, exchange=exchange, routing_key=routing_key)
    return PublishRefused(text, exchange=exchange, routing_key=routing_key)


def is_verdict(error: BaseException) -> bool:
    """Say whether the broker closed because of something it was sent, rather than for reasons of its own."""
    if isinstance(error, exceptions.ChannelClosedByBroker):
        return True
    return isinstance(error, exceptions.ConnectionClosedByBroker) and error.reply_code not in {200, 320}


def _value(words: str) -> str:
    found = _VALUE.fullmatch(words.strip())
    return found[1] if found else words.strip()
