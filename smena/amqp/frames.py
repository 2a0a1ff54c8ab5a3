"""Read and write by hand the few frames that make up all the traffic.

pika builds some ten Python objects for each message it delivers or publishes. Deliveries, confirms and
publishes are cut out of, or put into, the byte stream here; every other frame goes on to pika untouched and
in order. What that saves was measured and stands in docs/adr/0020. The layouts are those of the AMQP 0-9-1
specification: section 4.2 (frames) and class `basic`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, Protocol

from smena.amqp.fieldtable import short_string

_FRAME: Final = struct.Struct(">BHI")
_CONTENT: Final = struct.Struct(">BHIHHQ")
_ANSWER: Final = struct.Struct(">BHIIQBB")
_frame_at: Final = _FRAME.unpack_from
_u32_at: Final = struct.Struct(">I").unpack_from
_u64_at: Final = struct.Struct(">Q").unpack_from
_tag_at: Final = struct.Struct(">QB").unpack_from

_METHOD: Final = 1
_HEADER: Final = 2
_BODY: Final = 3
_END: Final = 0xCE
_OVERHEAD: Final = 8
"""Bytes of a frame beside its payload: type, channel, size, end mark."""

_BASIC: Final = 60
_DELIVER: Final = b"\x00\x3c\x00\x3c"
_ACK: Final = b"\x00\x3c\x00\x50"
_NACK: Final = b"\x00\x3c\x00\x78"
_PUBLISH: Final = b"\x00\x3c\x00\x28\x00\x00"
_MULTIPLE: Final = 1
_REQUEUE: Final = 2


class BrokenFrame(ConnectionError):
    """The broker's bytes are not AMQP frames."""


class Sink(Protocol):
    """Who takes the deliveries and confirms of one channel."""

    def delivered(
        self, consumer_tag: bytes, tag: int, redelivered: bool, address: bytes, header: bytes, body: bytes
    ) -> None:
        """Take a message.

        ``address`` is exchange and routing key, two short strings; ``header`` the content header from the
        property flags on. Both are read when somebody asks for them.
        """

    def confirmed(self, tag: int, multiple: bool, positive: bool) -> None:
        """Take the broker's answer to a publish."""

    def read_ends(self) -> None:
        """Know that nothing more has come with this read."""


class Tap:
    """Stand in the stream from the broker: take the frames of tapped channels, forward the rest.

    ``owner`` is pika's connection: its heartbeat check counts received bytes and must count ours too.
    """

    def __init__(self) -> None:
        self.sinks: dict[int, Sink] = {}
        self.forward: Callable[[bytes], None] = _refuse
        self.owner: Any = None
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._needed = 0
        self._touched: set[Sink] = set()
        self._takers = {_DELIVER: self._message, _ACK: self._ack, _NACK: self._nack}

    def receive(self, data: bytes) -> None:
        """Take what the socket gave: frames, the last one perhaps in part."""
        if self._held:
            self._held.append(data)
            self._held_bytes += len(data)
            if self._held_bytes < self._needed:
                return  # a large body comes in many reads; joined once, it costs no more than its size
            data = b"".join(self._held)
            self._held.clear()
        done = self._split(data)
        if done < len(data):
            self._held.append(data[done:])
            self._held_bytes = len(data) - done
        if self._touched:
            self.owner.bytes_received += done
            touched, self._touched = self._touched, set()
            for sink in touched:
                sink.read_ends()

    def _split(self, data: bytes) -> int:
        """Go through the whole frames; return where the first incomplete one begins."""
        at = run = 0  # what lies between is whole and not ours
        size = len(data)
        sinks, takers = self.sinks, self._takers
        self._needed = _OVERHEAD
        while size - at >= _OVERHEAD:
            kind, channel, length = _frame_at(data, at)
            end = at + length + _OVERHEAD
            if kind > _OVERHEAD:  # also how a broker says that it wants another protocol
                raise BrokenFrame(f"frame of type {kind}")
            if end > size:
                self._needed = end - at
                break
            sink = sinks.get(channel) if kind == _METHOD else None
            take = takers.get(data[at + 7 : at + 11]) if sink is not None else None
            if sink is None or take is None:
                at = end
                continue
            if run < at:
                self.forward(data[run:at])
                run = at
            after = take(sink, data, at, end)
            if not after:
                break
            self._touched.add(sink)
            at = run = after
        if run < at:
            self.forward(data[run:at])
        return at

    def _ack(self, sink: Sink, data: bytes, at: int, end: int) -> int:
        tag, bits = _tag_at(data, at + 11)
        sink.confirmed(tag, bits & _MULTIPLE != 0, positive=True)
        return end

    def _nack(self, sink: Sink, data: bytes, at: int, end: int) -> int:
        tag, bits = _tag_at(data, at + 11)
        sink.confirmed(tag, bits & _MULTIPLE != 0, positive=False)
        return end

    def _message(self, sink: Sink, data: bytes, at: int, end: int) -> int:
        """Hand over the message whose method frame lies at ``at``; return its end, 0 if it is not all there."""
        size = len(data)
        if size - end < _CONTENT.size:
            self._needed = end + _CONTENT.size - at
            return 0
        if data[end] != _HEADER or data[end - 1] != _END:
            raise BrokenFrame("no content header where one must be")
        header_end: int = end + _u32_at(data, end + 3)[0] + _OVERHEAD
        left: int = _u64_at(data, end + 11)[0]
        after = header_end + left + _OVERHEAD if left else header_end
        if after > size:
            self._needed = after - at
            return 0
        body = data[header_end + 7 : after - 1]
        if left and _u32_at(data, header_end + 3)[0] != left:
            body, after = self._parts(data, at, header_end, left)
            if not after:
                return 0
        tag_at = at + 12 + data[at + 11]
        tag, redelivered = _tag_at(data, tag_at)
        consumer_tag, address = data[at + 12 : tag_at], data[tag_at + 9 : end - 1]
        sink.delivered(consumer_tag, tag, redelivered == 1, address, data[end + 19 : header_end - 1], body)
        return after

    def _parts(self, data: bytes, begin: int, at: int, left: int) -> tuple[bytes, int]:
        """Join a body that comes in several frames."""
        parts = []
        size = len(data)
        while left:
            end = at + _u32_at(data, at + 3)[0] + _OVERHEAD if size - at >= _OVERHEAD else size + 1
            if end > size:
                self._needed = max(end, at + left + _OVERHEAD) - begin
                return b"", 0
            if data[at] != _BODY or end - at - _OVERHEAD > left:
                raise BrokenFrame("no body frame where one must be")
            parts.append(data[at + 7 : end - 1])
            left -= end - at - _OVERHEAD
            at = end
        return b"".join(parts), at


def _refuse(data: bytes) -> None:
    raise BrokenFrame(f"{len(data)} bytes before the stream was joined to a connection")


def publish_head(channel: int, exchange: str, routing_key: str) -> bytes:
    """Return the method frame of a mandatory `basic.publish`; raise `ValueError` for names over 255 bytes."""
    payload = b"".join((_PUBLISH, short_string(exchange), short_string(routing_key), b"\x01"))
    return b"".join((_FRAME.pack(_METHOD, channel, len(payload)), payload, b"\xce"))


def publish_content(channel: int, header: bytes, body: bytes, body_max: int) -> bytes:
    """Return content header and body frames; ``header`` is the property flags and values."""
    size = len(body)
    pieces = [_CONTENT.pack(_HEADER, channel, len(header) + 12, _BASIC, 0, size), header]
    for at in range(0, size, body_max):
        part = body if size <= body_max else body[at : at + body_max]
        pieces += (b"\xce", _FRAME.pack(_BODY, channel, len(part)), part)
    pieces.append(b"\xce")
    return b"".join(pieces)


def ack(channel: int, tag: int, *, multiple: bool) -> bytes:
    """Return a `basic.ack` frame."""
    return _ANSWER.pack(_METHOD, channel, 13, 0x3C0050, tag, _MULTIPLE if multiple else 0, _END)


def give_back_all(channel: int) -> bytes:
    """Return a `basic.nack` frame that asks for all that is unsettled on the channel to be queued again."""
    return _ANSWER.pack(_METHOD, channel, 13, 0x3C0078, 0, _REQUEUE | 1, _END)


def give_back(channel: int, tag: int) -> bytes:
    """Return a `basic.nack` frame that asks for one message to be queued again."""
    return _ANSWER.pack(_METHOD, channel, 13, 0x3C0078, tag, _REQUEUE, _END)
