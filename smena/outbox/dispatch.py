"""Turn a claimed row into what the publisher sends, or refuse it for good.

Rows may also be written by hand or by another language, so nothing in them is taken on trust: whatever is
wrong with one is a `Permanent` error of that row alone, before any byte of it is sent.
"""

from __future__ import annotations

from typing import Final

import msgspec

from smena.amqp import codec
from smena.amqp.names import check_address, parts, work_queue
from smena.amqp.outgoing import Outgoing
from smena.amqp.properties import Properties
from smena.errors import Misconfigured, Undecodable, Unsendable
from smena.outbox.claims import Row

_MAX_EXPIRATION_MS: Final = 2**32 - 1
_EXPIRATION_DIGITS: Final = len(str(_MAX_EXPIRATION_MS))
_DIRECT_REPLY: Final = "amq.rabbitmq.reply-to"
_ROUTING: Final = frozenset({"CC", "BCC"})


def outgoing_of(row: Row, prefix: str) -> Outgoing:
    """Return the row's message; raise `Undecodable` or `Unsendable` if it can never be sent."""
    properties = _properties(row)
    job = codec.decode(row.body, properties, row.queue)
    if job.id != row.id:
        raise Undecodable("the body's message_id is not the row's id", body=job.id)
    try:
        check_address(row.queue)
    except Misconfigured as error:
        raise Unsendable(str(error)) from error
    if row.exchange is None:
        ordered = row.slot is not None or parts(row.queue)[1] is not None
        return Outgoing("", work_queue(prefix, row.queue), row.body, properties, row.queue, ordered=ordered)
    return Outgoing(row.exchange, row.routing_key or "", row.body, properties, row.queue)


def _properties(row: Row) -> Properties:
    """Return the row's properties; what a hand-written row leaves out is what every message has."""
    try:
        properties = codec.properties_from_json(row.properties)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Undecodable("properties", error=str(error)) from error
    _refuse_unsendable(properties)
    properties.message_id = row.id
    properties.user_id = None  # the broker takes only the relay's own
    properties.delivery_mode = 2
    properties.type = properties.type or row.actor
    properties.content_type = properties.content_type or "application/json"
    return properties


def _refuse_unsendable(properties: Properties) -> None:
    """Raise `Unsendable` for what the broker would close the channel for, under all who are sending."""
    expiration, reply_to, headers = properties.expiration, properties.reply_to, properties.headers or {}
    if expiration is not None and not _is_expiration(expiration):
        raise Unsendable("the property expiration is no number of milliseconds", expiration=expiration[:50])
    if reply_to is not None and reply_to.startswith(_DIRECT_REPLY):
        raise Unsendable("a reply cannot come to the relay", reply_to=reply_to[:50])
    for name in _ROUTING & headers.keys():
        keys = headers[name]
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise Unsendable(f"the header {name} is no list of routing keys")


def _is_expiration(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _EXPIRATION_DIGITS and int(text) <= _MAX_EXPIRATION_MS
