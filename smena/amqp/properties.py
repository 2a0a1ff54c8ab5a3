"""Hold a message's properties, and read and write them as they lie on the wire.

The attributes are named as in pika's `BasicProperties`. A value of its own, because it is needed where
pika is not spoken: stored as JSON beside a settlement or an outbox row, and read by archivist and rings.
Reading is lazy about nothing and lenient about nothing but text: what is not UTF-8 becomes bytes.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import msgspec

from smena.amqp.fieldtable import encode_table, read_table, short_string
from smena.errors import TooLarge, Undecodable, Unsendable

MAX_HEADERS_BYTES: Final = 64 * 1024
"""A header of 200 kB makes RabbitMQ close the connection (501); frames hold 128 KiB."""

_u16: Final = struct.Struct(">H")
_u32: Final = struct.Struct(">I")
_u64: Final = struct.Struct(">Q")


class Properties(msgspec.Struct, omit_defaults=True):
    """What travels beside a body. ``timestamp`` is in seconds since the Unix epoch."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: dict[str, Any] | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


# --- writing ----------------------------------------------------------------------------------

_SHORT: Final = (  # attribute, flag; in the order of the wire, parted by the four that are not short strings
    ("priority", 1 << 11),
    ("correlation_id", 1 << 10),
    ("reply_to", 1 << 9),
    ("expiration", 1 << 8),
    ("message_id", 1 << 7),
    ("timestamp", 1 << 6),
    ("type", 1 << 5),
    ("user_id", 1 << 4),
    ("app_id", 1 << 3),
    ("cluster_id", 1 << 2),
)


class Encoded(msgspec.Struct, frozen=True):
    """Properties as they lie on the wire, with room in the header table for one more entry."""

    before: bytes
    table: bytes
    after: bytes

    def with_entry(self, entry: bytes) -> bytes:
        """Return flags and values with ``entry`` at the end of the header table."""
        return b"".join((self.before, _u32.pack(len(self.table) + len(entry)), self.table, entry, self.after))


def encode_properties(properties: Properties) -> Encoded:
    """Lay the properties out for the wire, always with a header table.

    Raise `TooLarge` when the headers pass 64 kB, `Unsendable` for a value that AMQP cannot hold.
    """
    try:
        table = encode_table(properties.headers) if properties.headers else b""
        flags, before = _begin(properties)
        values = []
        for name, flag in _SHORT:
            value = getattr(properties, name)
            if value is not None:
                flags |= flag
                values.append(_short_value(name, value))
    except (ValueError, TypeError, AttributeError, struct.error, RecursionError) as error:
        raise Unsendable("a property or header that AMQP cannot hold", error=str(error)) from error
    if len(table) > MAX_HEADERS_BYTES:
        raise TooLarge("headers", bytes=len(table), most=MAX_HEADERS_BYTES)
    delivery_mode = properties.delivery_mode
    if delivery_mode is not None:
        values.insert(0, bytes((delivery_mode,)))
        flags |= 1 << 12
    return Encoded(_u16.pack(flags | 1 << 13) + before, table, b"".join(values))


def _begin(properties: Properties) -> tuple[int, bytes]:
    flags, before = 0, b""
    if properties.content_type is not None:
        flags, before = 1 << 15, short_string(properties.content_type)
    if properties.content_encoding is not None:
        flags, before = flags | 1 << 14, before + short_string(properties.content_encoding)
    return flags, before


def _short_value(name: str, value: Any) -> bytes:
    if name == "timestamp":
        return _u64.pack(value)
    return bytes((value,)) if name == "priority" else short_string(value)


# --- reading ----------------------------------------------------------------------------------


def decode_properties(header: bytes) -> Properties:
    """Read property flags and values; raise `Undecodable` when they do not add up."""
    try:
        return _decode(header)
    except (struct.error, LookupError, ValueError, RecursionError) as error:
        raise Undecodable("properties", error=str(error)) from error


def _decode(header: bytes) -> Properties:
    flags = _u16.unpack_from(header)[0]
    properties = Properties()
    at = 2
    if flags & 1 << 15:
        properties.content_type, at = _read_short(header, at)
    if flags & 1 << 14:
        properties.content_encoding, at = _read_short(header, at)
    if flags & 1 << 13:
        size = _u32.unpack_from(header, at)[0]
        properties.headers = read_table(header, at + 4, at + 4 + size)
        at += 4 + size
    if flags & 1 << 12:
        properties.delivery_mode = header[at]
        at += 1
    if flags & 1 << 11:
        properties.priority = header[at]
        at += 1
    if flags & 0b111_1000_0000:
        at = _read_shorts(header, at, flags, properties, _SHORT[1:5])
    if flags & 1 << 6:
        properties.timestamp = _u64.unpack_from(header, at)[0]
        at += 8
    if flags & 0b11_1100:
        _read_shorts(header, at, flags, properties, _SHORT[6:])
    return properties


def _read_shorts(header: bytes, at: int, flags: int, properties: Properties, names: tuple[tuple[str, int], ...]) -> int:
    for name, flag in names:
        if flags & flag:
            value, at = _read_short(header, at)
            setattr(properties, name, value)
    return at


def _read_short(data: bytes, at: int) -> tuple[str, int]:
    end = at + 1 + data[at]
    return data[at + 1 : end].decode("utf-8", "replace"), end
