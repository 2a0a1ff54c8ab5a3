"""Hold one message that the broker has lent us, and settle it on the channel that it came by.

A settle belongs to (connection epoch, channel, tag): each channel has its own `Tags`, and a delivery keeps
the one it came by. When the channel is gone its tags are dead, and a late settle is dropped and counted; it
can never meet a tag of the same number on a newer channel.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from smena.amqp import frames
from smena.amqp.properties import Properties, decode_properties

ISOLATED_S: Final = 0.01
"""How long an ack waits for its elders before it goes alone: one frame for many spares the broker."""


class Wire(Protocol):
    """What tags need of the link."""

    def post(self, call: Callable[[], object]) -> None:
        """Have a call made on the link thread."""

    def later(self, delay_s: float, call: Callable[[], object]) -> None:
        """Have a call made on the link thread after a while."""

    def write(self, data: bytes) -> None:
        """Send frames at the end of this pass."""


class Drops:
    """Count settles that came too late; from any thread."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        """Count some more."""
        with self._lock:
            self.count += count


class Tags:
    """The delivery tags of one channel: which are settled, and what the broker was told."""

    def __init__(self, channel: int, wire: Wire, drops: Drops) -> None:
        self.alive = True
        self._drops = drops
        self._channel = channel
        self._wire = wire
        self._settled: deque[int] = deque()
        self._flush_is_due = False
        self._timer_is_set = False
        self._out: set[int] = set()  # lent to us and not settled; no larger than the prefetch
        self._acked: set[int] = set()  # settled, and the broker not told: an elder is still out
        self._lowest = 1  # all below are settled
        self._next = 1

    def lent(self, tag: int) -> None:
        """Know that the broker has lent us a message under this tag."""
        self._out.add(tag)
        self._next = tag + 1

    def out(self) -> int:
        """Return how many messages are lent to us and not settled."""
        return len(self._out)

    def settle(self, tag: int) -> None:
        """Ack a tag, or give it back if it is negative; from any thread."""
        if not self.alive:
            self._drops.add(1)
            return
        self._settled.append(tag)
        if not self._flush_is_due:
            self._flush_is_due = True
            self._wire.post(self.flush)

    def end(self) -> None:
        """Know that the channel is gone; all that is out is with the broker again."""
        self.alive = False
        self._drop()

    def hand_back(self) -> None:
        """Tell the broker all that was settled, then give back all that is out at once; an orderly end.

        One command: a quorum queue takes only some 32 at a time from a channel, and would get the rest when that is
        gone, which may be after the next owner has begun. It keeps the order of no more than 32 messages at once.
        """
        self.flush()
        self._ack_isolated()
        if self._out:
            self._wire.write(frames.give_back_all(self._channel))
        self.end()

    def flush(self) -> None:
        """Tell the broker what was settled: elders in one frame, younger ones a little later."""
        self._flush_is_due = False
        if not self.alive:
            self._drop()  # of a thread that saw us alive just before
            return
        told = []
        while self._settled:
            tag = self._settled.popleft()
            self._out.discard(abs(tag))
            if tag > 0:
                self._acked.add(tag)
            else:
                told.append(frames.give_back(self._channel, -tag))
        self._ack_elders(told)
        if told:
            self._wire.write(b"".join(told))
        if self._acked and not self._timer_is_set:
            self._timer_is_set = True
            self._wire.later(ISOLATED_S, self._ack_isolated)

    def _drop(self) -> None:
        self._drops.add(len(self._settled))
        self._settled.clear()

    def _ack_elders(self, told: list[bytes]) -> None:
        """Ack all below the first that is still out in one frame. Give-backs among them have gone before."""
        out, acked = self._out, self._acked
        tag, count, last = self._lowest, 0, 0
        while tag < self._next and tag not in out:
            if tag in acked:
                acked.remove(tag)
                count += 1
                last = tag
            tag += 1
        self._lowest = tag
        if count:
            told.append(frames.ack(self._channel, last, multiple=count > 1))

    def _ack_isolated(self) -> None:
        self._timer_is_set = False
        if not self.alive or not self._acked:
            return
        tags = sorted(self._acked)
        self._acked.clear()
        self._wire.write(b"".join([frames.ack(self._channel, tag, multiple=False) for tag in tags]))


class Ledger(Protocol):
    """Where a delivery's settle is noted: the tags of its channel, or whoever has lent the message on."""

    @property
    def alive(self) -> bool:
        """Whether a settle still means anything."""

    def settle(self, tag: int) -> None:
        """Note the ack of a tag, or its return if it is negative; from any thread."""


class _Told:
    """Tell somebody of a settle, after it was noted."""

    __slots__ = ("_ledger", "_told")

    def __init__(self, ledger: Ledger, told: Callable[[], object]) -> None:
        self._ledger = ledger
        self._told = told

    @property
    def alive(self) -> bool:
        return self._ledger.alive

    def settle(self, tag: int) -> None:
        self._ledger.settle(tag)
        self._told()


class Delivery:
    """One message. Made for every message, so lean: what is rarely asked for is read when it is.

    ``queue`` is the logical name; ``received_at`` is on the monotonic clock.
    """

    __slots__ = ("_address", "_header", "_properties", "_tag", "_tags", "body", "queue", "received_at", "redelivered")

    def __init__(
        self,
        queue: str,
        body: bytes,
        redelivered: bool,
        received_at: float,
        header: bytes,
        address: bytes,
        tags: Ledger,
        tag: int,
    ) -> None:
        self.queue = queue
        self.body = body
        self.redelivered = redelivered
        self.received_at = received_at
        self._header = header
        self._address = address
        self._properties: Properties | None = None
        self._tags = tags
        self._tag = tag

    @property
    def properties(self) -> Properties:
        """Return what travels beside the body; raise `Undecodable` when it cannot be read."""
        if self._properties is None:
            self._properties = decode_properties(self._header)
        return self._properties

    @property
    def tag(self) -> int:
        """Return the number by which it is settled; 0 when that is done."""
        return self._tag

    @property
    def header(self) -> bytes:
        """Return the properties as they came."""
        return self._header

    @property
    def exchange(self) -> str:
        """Return the exchange by which the message came to its queue."""
        return self._address[1 : 1 + self._address[0]].decode("utf-8", "replace")

    @property
    def routing_key(self) -> str:
        """Return the routing key by which the message came to its queue."""
        return self._address[2 + self._address[0] :].decode("utf-8", "replace")

    def alive(self) -> bool:
        """Say whether the channel it came by still stands; if not, the broker has it again."""
        return self._tags.alive

    def when_settled(self, told: Callable[[], object]) -> None:
        """Have ``told`` called once this is settled, on whatever thread settles it; it must be quick and not raise."""
        self._tags = _Told(self._tags, told)

    def ack(self) -> None:
        """Tell the broker that the message is settled; from any thread; the first settle counts."""
        tag, self._tag = self._tag, 0
        if tag:
            self._tags.settle(tag)

    def give_back(self) -> None:
        """Let the broker hand the message out again; from any thread; the first settle counts."""
        tag, self._tag = self._tag, 0
        if tag:
            self._tags.settle(-tag)
