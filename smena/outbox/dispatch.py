"""Turn a claimed row into what the publisher sends, or refuse it for good.

Rows may also be written by hand or by another language, so nothing in them is taken on trust: whatever is
wrong with one is a `Permanent` error of that row alone, before any byte of it is sent.
"""

from __future__ import annotations

import msgspec

from smena.amqp import codec
from smena.amqp.names import check_queue_name, work_queue
from smena.amqp.outgoing import Outgoing
from smena.amqp.properties import Properties
from smena.errors import Misconfigured, Undecodable, Unsendable
from smena.outbox.claims import Row


def outgoing_of(row: Row, prefix: str) -> Outgoing:
    """Return the row's message; raise `Undecodable` or `Unsendable` if it can never be sent."""
    properties = _properties(row)
    job = codec.decode(row.body, properties, row.queue)
    if job.id != row.id:
        raise Undecodable("the body's message_id is not the row's id", body=job.id)
    try:
        check_queue_name(row.queue)
    except Misconfigured as error:
        raise Unsendable(str(error)) from error
    if row.exchange is None:
        return Outgoing("", work_queue(prefix, row.queue), row.body, properties, row.queue)
    return Outgoing(row.exchange, row.routing_key or "", row.body, properties, row.queue)


def _properties(row: Row) -> Properties:
    """Return the row's properties; what a hand-written row leaves out is what every message has."""
    try:
        properties = codec.properties_from_json(row.properties)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Undecodable("properties", error=str(error)) from error
    properties.message_id = row.id
    properties.delivery_mode = 2
    properties.type = properties.type or row.actor
    properties.content_type = properties.content_type or "application/json"
    return properties
