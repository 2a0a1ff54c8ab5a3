"""Hold one message that the broker has lent us, and settle it on the channel that it came by.

A settle belongs to (connection epoch, channel, tag): each channel has its own `Tags`, and a delivery keeps
the one it came by. When the channel is gone its tags are dead, and a late settle is dropped and counted; it
can never meet a tag of the same number on a newer channel.
"""

from __future__ import annotations

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


class Tags:
    """The delivery tags of one channel: which are settled, and what the broker was told."""

    def __init__(self, channel: int, wire: Wire) -> None:
        self.alive = True
        self.dropped = 0
        self._channel = channel
        self._wire = wire
        self._settled: deque[int] = deque()
        self._flush_is_due = False
        self._timer_is_set = False
        self._lowest = 1
        self._acked: set[int] = set()  # settled, and the broker not told: an elder is still out
        self._told: set[int] = set()  # told singly, above the lowest that is out

    def settle(self, tag: int) -> None:
        """Ack a tag, or give it back if it is negative; from any thread."""
        if not self.alive:
            self.dropped += 1
            return
        self._settled.append(tag)
        if not self._flush_is_due:
            self._flush_is_due = True
            self._wire.post(self.flush)

    def end(self) -> None:
        """Know that the channel is gone; all that is out is with the broker again."""
        self.alive = False
        self.dropped += len(self._settled)
        self._settled.clear()

    def flush(self) -> None:
        """Tell the broker what was settled: elders in one frame, younger ones a little later."""
        self._flush_is_due = False
        if not self.alive:
            return
        settled = self._settled
        out = []
        acked = self._acked
        while settled:
            tag = settled.popleft()
            if tag > 0:
                acked.add(tag)
            else:
                self._told.add(-tag)
                out.append(frames.give_back(self._channel, -tag))
        self._ack_elders(out)
        if out:
            self._wire.write(b"".join(out))
        if acked and not self._timer_is_set:
            self._timer_is_set = True
            self._wire.later(ISOLATED_S, self._ack_isolated)

    def _ack_elders(self, out: list[bytes]) -> None:
        """Ack all up to the first that is still out in one frame. Give-backs among them have gone before."""
        begin = tag = self._lowest
        last = 0
        acked, told = self._acked, self._told
        while True:
            if tag in acked:
                acked.discard(tag)
                last = tag
            elif tag in told:
                told.discard(tag)
            else:
                break
            tag += 1
        self._lowest = tag
        if last:
            out.append(frames.ack(self._channel, last, multiple=last > begin))

    def _ack_isolated(self) -> None:
        self._timer_is_set = False
        if not self.alive or not self._acked:
            return
        tags = sorted(self._acked)
        self._acked.clear()
        self._told.update(tags)
        self._wire.write(b"".join([frames.ack(self._channel, tag, multiple=False) for tag in tags]))


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
        tags: Tags,
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
