"""Read and write AMQP field tables: the values that headers may have.

The two kinds that make up nearly all headers, text and whole numbers, are read and written in line.
RabbitMQ's dialect of the type marks holds where it differs from the specification's.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

_u32: Final = struct.Struct(">I")
_i64: Final = struct.Struct(">q")
_f64: Final = struct.Struct(">d")
_INT64: Final = range(-(1 << 63), 1 << 63)


class Timestamp(int):
    """A point in time as AMQP writes one: in seconds, so it is not taken for milliseconds where those are wanted."""


def short_string(text: str) -> bytes:
    """Return an AMQP short string; raise `ValueError` when it is longer than 255 bytes."""
    data = text.encode()
    if len(data) > 255:
        raise ValueError(f"{len(data)} bytes where AMQP has room for 255")
    return bytes((len(data),)) + data


@lru_cache(maxsize=256)
def _entry_name(name: str) -> bytes:
    return short_string(name)


def encode_table(table: Mapping[str, Any]) -> bytes:
    """Return the entries of a table, without its length."""
    return b"".join([_entry_name(name) + encode_value(value) for name, value in table.items()])


def encode_value(value: Any) -> bytes:
    """Return a field value with its type mark; raise `ValueError` for what has none."""
    if type(value) is str:
        data = value.encode()
        return b"S" + _u32.pack(len(data)) + data
    if type(value) is int:
        if value not in _INT64:
            raise ValueError("a whole number beyond 64 bits")
        return b"l" + _i64.pack(value)
    return _encode_rare(value)


def _encode_rare(value: Any) -> bytes:
    match value:
        case None:
            return b"V"
        case bool():
            return b"t" + bytes((value,))
        case Timestamp():
            return b"T" + value.to_bytes(8, "big")
        case float():
            return b"d" + _f64.pack(value)
        case bytes():
            return b"x" + _u32.pack(len(value)) + value
        case list() | tuple():
            data = b"".join(map(encode_value, value))
            return b"A" + _u32.pack(len(data)) + data
        case dict():
            data = encode_table(value)
            return b"F" + _u32.pack(len(data)) + data
    raise ValueError(f"no AMQP field type for {type(value).__name__}")


def read_table(data: bytes, at: int, end: int) -> dict[str, Any]:
    """Return the entries that lie between two places."""
    table: dict[str, Any] = {}
    while at < end:
        name_end = at + 1 + data[at]
        name = data[at + 1 : name_end].decode("utf-8", "replace")
        kind = data[name_end]
        if kind == 0x53:  # S, by far the most
            value_at = name_end + 5
            at = value_at + _u32.unpack_from(data, name_end + 1)[0]
            table[name] = _text(data[value_at:at])
        elif kind == 0x6C:  # l
            table[name] = _i64.unpack_from(data, name_end + 1)[0]
            at = name_end + 9
        else:
            table[name], at = _READERS[kind](data, name_end + 1)
    return table


def _text(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


Reader = Callable[[bytes, int], tuple[Any, int]]


def _fixed(layout: str) -> Reader:
    shape = struct.Struct(layout)
    return lambda data, at: (shape.unpack_from(data, at)[0], at + shape.size)


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    end = at + 4 + _u32.unpack_from(data, at)[0]
    return data[at + 4 : end], end


def _read_timestamp(data: bytes, at: int) -> tuple[Timestamp, int]:
    return Timestamp.from_bytes(data[at : at + 8], "big"), at + 8


def _read_text(data: bytes, at: int) -> tuple[str | bytes, int]:
    raw, end = _read_bytes(data, at)
    return _text(raw), end


def _read_array(data: bytes, at: int) -> tuple[list[Any], int]:
    end = at + 4 + _u32.unpack_from(data, at)[0]
    at += 4
    values = []
    while at < end:
        value, at = _READERS[data[at]](data, at + 1)
        values.append(value)
    return values, end


def _read_inner_table(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    end = at + 4 + _u32.unpack_from(data, at)[0]
    return read_table(data, at + 4, end), end


def _read_decimal(data: bytes, at: int) -> tuple[Decimal, int]:
    return Decimal(_fixed(">i")(data, at + 1)[0]).scaleb(-data[at]), at + 5


_READERS: Final[Mapping[int, Reader]] = {
    ord("t"): _fixed(">?"),
    ord("b"): _fixed(">b"),
    ord("B"): _fixed(">B"),
    ord("s"): _fixed(">h"),
    ord("u"): _fixed(">H"),
    ord("I"): _fixed(">i"),
    ord("i"): _fixed(">I"),
    ord("l"): _fixed(">q"),
    ord("L"): _fixed(">q"),
    ord("f"): _fixed(">f"),
    ord("d"): _fixed(">d"),
    ord("T"): _read_timestamp,
    ord("D"): _read_decimal,
    ord("S"): _read_text,
    ord("x"): _read_bytes,
    ord("A"): _read_array,
    ord("F"): _read_inner_table,
    ord("V"): lambda _data, at: (None, at),
}


def plain(value: Any) -> Any:
    """Return a header's value if JSON and PostgreSQL can hold it, else raise `ValueError`."""
    match value:
        case None | bool():
            return value
        case int() if int(value) in _INT64:  # a range looks for a subclass's value one by one
            return int(value)
        case str() if "\0" not in value:
            return value
        case float() if math.isfinite(value):
            return value
        case list():
            return [plain(one) for one in value]
        case dict():
            return {plain(name): plain(one) for name, one in value.items()}
    raise ValueError(type(value).__name__)
