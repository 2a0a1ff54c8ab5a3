"""A broker in memory, spoken to in AMQP frames: queues, delays, confirms, redelivery, and nothing else.

It stands in for RabbitMQ where 25,000 steps are made: the fleet's own code writes and reads the bytes (`frames`,
`Tap`, `Lane`, `Consumer`, `Tags`), and this is what lies behind the socket. What it promises is what RabbitMQ was
measured to promise: a message is confirmed after it is kept; what is unacked comes back, marked redelivered, when its
channel ends; acks and publishes on two connections keep no order among each other.
"""

from __future__ import annotations

import struct
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from smena.amqp import codec, frames, names
from smena.amqp.fieldtable import short_string
from smena.amqp.properties import decode_properties
from smena.clock import Clock
from smena.errors import Undecodable

_FRAME: Final = struct.Struct(">BHI")
_PUBLISH, _ACK, _NACK = 0x3C0028, 0x3C0050, 0x3C0078


@dataclass(eq=False)
class Kept:
    """One message that the broker holds."""

    queue: str
    exchange: str
    routing_key: str
    header: bytes
    body: bytes
    redelivered: bool = False

    @cached_property
    def job_id(self) -> str:
        """The id of the job that it is a copy of."""
        return decode_properties(self.header).message_id or ""

    @property
    def attempt(self) -> int | None:
        """The attempt that it begins or, for a dead letter, that has ended; None for what is no job."""
        try:
            return codec.decode(self.body, decode_properties(self.header), self.queue).attempt
        except Undecodable:
            return None


@dataclass(eq=False)
class Session:
    """The broker's side of one channel."""

    number: int
    consumers: dict[str, str] = field(default_factory=dict)
    lent: dict[int, Kept] = field(default_factory=dict)
    prefetch: int = 0
    delivered: int = 0
    published: int = 0
    given_back: set[int] = field(default_factory=set)
    """Tags that go back, by what was written and need not have been read."""


class Broker:
    """See the module."""

    def __init__(self, prefix: str, clock: Clock) -> None:
        self.ready: defaultdict[str, deque[Kept]] = defaultdict(deque)
        self.delayed: list[tuple[float, Kept]] = []
        self.taken: list[Kept] = []
        self.refusals = 0
        """So many of the next publishes get a nack."""
        self.on_settled: Callable[[Kept], None] = lambda _message: None
        self._lent: list[Session] = []
        self._prefix = prefix
        self._clock = clock

    # --- what a process does --------------------------------------------------------------------

    def open(self, number: int) -> Session:
        """Open a channel."""
        session = Session(number)
        self._lent.append(session)
        return session

    def end(self, session: Session) -> None:
        """Close a channel: what it holds comes back to the head of its queue."""
        self._lent.remove(session)
        for tag in sorted(session.lent, reverse=True):
            self._back(session.lent.pop(tag))

    def read(self, session: Session, frame: Written) -> bytes:
        """Take what the process has written; return the answer."""
        match frame:
            case Publish(message):
                return self._publish(session, message)
            case Settle(tag, multiple, give_back):
                for each in [one for one in session.lent if one == tag or (multiple and one < tag)]:
                    message = session.lent.pop(each)
                    if give_back:
                        self._back(message)
        return b""

    def deliver(self, session: Session, most: int) -> bytes:
        """Lend ready messages, as many as the prefetch allows."""
        given = b""
        for consumer_tag, queue in session.consumers.items():
            ready = self.ready[queue]
            while ready and most > 0 and len(session.lent) < session.prefetch:
                most -= 1
                given += self._lend(session, consumer_tag, ready.popleft())
        return given

    # --- what the test sees and does --------------------------------------------------------------

    def put(self, queue: str, header: bytes, body: bytes) -> None:
        """Keep a message as its sender saw it confirmed."""
        self.ready[queue].append(Kept(queue, "", queue, header, body))

    def wake(self) -> None:
        """Let go of the delayed that are due."""
        now = self._clock.monotonic()
        for due_s, message in [one for one in self.delayed if one[0] <= now]:
            self.delayed.remove((due_s, message))
            self.ready[message.queue].append(message)

    def all(self) -> Iterator[Kept]:
        """Yield every message that is kept, wherever it lies."""
        for queue in self.ready.values():
            yield from queue
        yield from (message for _, message in self.delayed)
        for session in self._lent:
            yield from session.lent.values()

    def dead(self) -> Iterator[Kept]:
        """Yield the dead letters."""
        return (message for queue, kept in self.ready.items() if queue.endswith(".dead") for message in kept)

    def _publish(self, session: Session, message: Kept) -> bytes:
        session.published += 1
        if self.refusals:
            self.refusals -= 1
            return frames.give_back(session.number, session.published)
        target = names.delayed_target(message.routing_key) if message.exchange else None
        message.queue = message.routing_key if target is None else names.work_queue(self._prefix, target)
        self.taken.append(message)
        if target is None:
            self.ready[message.queue].append(message)
        else:
            units = int("".join(message.routing_key.split(".")[: names.LEVELS]), 2)
            self.delayed.append((self._clock.monotonic() + units * names.UNIT_MS / 1000, message))
        return frames.ack(session.number, session.published, multiple=False)

    def _back(self, message: Kept) -> None:
        message.redelivered = True
        self.ready[message.queue].appendleft(message)

    def _lend(self, session: Session, consumer_tag: str, message: Kept) -> bytes:
        session.delivered += 1
        session.lent[session.delivered] = message
        payload = b"".join(
            (
                b"\x00\x3c\x00\x3c",
                short_string(consumer_tag),
                struct.pack(">QB", session.delivered, message.redelivered),
                short_string(message.exchange),
                short_string(message.routing_key),
            )
        )
        method = _FRAME.pack(1, session.number, len(payload)) + payload + b"\xce"
        return method + frames.publish_content(session.number, message.header, message.body, 1 << 17)


@dataclass(frozen=True)
class Publish:
    """A publish as it was written."""

    message: Kept


@dataclass(frozen=True)
class Settle:
    """An ack, or what gives back."""

    tag: int
    multiple: bool
    give_back: bool


Written = Publish | Settle


def parsed(data: bytes) -> Iterator[tuple[int, Written]]:
    """Yield channel and meaning of what one write holds: whole publishes, acks and give-backs."""
    at = 0
    while at < len(data):
        (_, channel, _), payload, at = _frame(data, at)
        (method,) = struct.unpack_from(">I", payload)
        if method == _PUBLISH:
            exchange, rest = _short(payload[6:])
            routing_key, _ = _short(rest)
            _, content, at = _frame(data, at)
            (size,) = struct.unpack_from(">Q", content, 4)
            body = b""
            while len(body) < size:
                _, part, at = _frame(data, at)
                body += part
            yield channel, Publish(Kept("", exchange, routing_key, content[12:], body))
        else:
            tag, bits = struct.unpack_from(">QB", payload, 4)
            yield channel, Settle(tag, method == _ACK and bits == 1, method == _NACK)


def _frame(data: bytes, at: int) -> tuple[tuple[int, int, int], bytes, int]:
    kind, channel, size = _FRAME.unpack_from(data, at)
    return (kind, channel, size), data[at + 7 : at + 7 + size], at + size + 8


def _short(data: bytes) -> tuple[str, bytes]:
    return data[1 : 1 + data[0]].decode(), data[1 + data[0] :]
