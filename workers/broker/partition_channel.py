"""Consume one partition on a channel of its own, from when it is ours until it is let go.

Nothing may overtake what another consumer of the queue still holds: a channel subscribes first when the queue has all
of that back. Letting go is in two steps, so that what is in hand can be settled in between: `silence` (a cancel; what
was under way then the broker takes back itself, before what is handed back here), then `close`. Until one of them is
asked for, a lost channel or connection is made good. All methods belong to the link thread.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, Final, Protocol

from pika.channel import Channel

from smena.amqp.faults import why_lost
from smena.amqp.link import Connection
from smena.amqp.topology import Declarer
from smena.backoff import Backoff, Pause
from smena.errors import BrokerLost, SmenaError
from smena.telemetry import events
from workers.broker.delivery import Delivery, Drops, Tags, Wire
from workers.broker.reception import Reception
from workers.broker.source import Source

_AGAIN: Final = Backoff(base_s=0.2, cap_s=3.0, floor_s=0.05)


class Partition(Protocol):
    """Who works it; called on the link thread."""

    def deliver(self, deliveries: list[Delivery]) -> object:
        """Take messages, in the order of the queue."""

    def channel_lost(self) -> None:
        """Forget what has not started: all that is unsettled comes again, on the next channel, from the first on."""


class PartitionChannel:
    """One partition's channel."""

    def __init__(
        self,
        connection: Connection,
        wire: Wire,
        declarer: Declarer,
        when_free: Callable[[Callable[[], object]], None],
        drops: Drops,
        source: Source,
        prefetch: int,
        partition: Partition,
    ) -> None:
        self._connection = connection
        self._wire = wire
        self._declarer = declarer
        self._when_free = when_free
        self._drops = drops
        self._source = source
        self._prefetch = prefetch
        self._partition = partition
        self._numbers = count(1)
        self._pause = Pause(_AGAIN)
        self._channel: Channel | None = None
        self._reception: Reception | None = None
        self._tag: str | None = None
        self._is_cancelling = False
        self._is_fresh = True
        self._is_held = False
        self._is_ending = False
        self._silent: Callable[[], object] | None = None
        self._closing: Callable[[], object] | None = None

    def open(self) -> None:
        """Subscribe as soon as the connection is up."""
        if self._connection.is_up and self._channel is None and not self._is_ending:
            self._connection.open_channel(self._opened)

    def hold(self, *, holding: bool) -> None:
        """Take nothing more for now, or go on; what is in hand stays."""
        self._is_held = holding
        self._subscribe()

    def silence(self, done: Callable[[], object]) -> None:
        """Take nothing more for good; ``done`` is called when nothing comes. What is in hand can still be settled."""
        self._is_ending = True
        self._silent = done
        if self._channel is not None and self._tag is not None:
            self._cancel(self._channel)
        elif not self._is_cancelling:
            self._tell_silence()

    def close(self, done: Callable[[], object]) -> None:
        """Let go; ``done`` is called when the broker has all back that was not settled."""
        self._closing = done
        self.silence(self._hand_back)

    def abandon(self) -> None:
        """Settle nothing any more, and never come back."""
        self._is_ending = True
        self._closing = self._silent = None
        self._channel = None
        if self._reception is not None:
            self._reception.tags.end()
            self._reception = None

    def lost(self) -> None:
        """Forget the channel: the connection is gone."""
        channel, self._channel, self._tag = self._channel, None, None
        self._is_cancelling = False
        if channel is None:
            return
        if self._reception is not None:
            self._reception.tags.end()
            self._reception = None
        self._partition.channel_lost()
        self._tell_silence()
        self._has_closed()

    # --- the channel ----------------------------------------------------------------------------

    def _opened(self, channel: Channel) -> None:
        if self._is_ending or self._channel is not None:
            channel.close()
            return
        self._channel, self._is_fresh = channel, True
        self._reception = Reception(
            Tags(channel.channel_number, self._wire, self._drops),
            self._partition.deliver,
            self._connection.thread.clock,
        )
        self._connection.tap.sinks[channel.channel_number] = self._reception
        channel.add_on_close_callback(self._closed)
        channel.add_on_cancel_callback(self._cancelled_by_broker)
        self._subscribe()

    def _closed(self, channel: Channel, reason: BaseException) -> None:
        self._connection.tap.sinks.pop(channel.channel_number, None)
        if channel is not self._channel or not self._connection.is_up:
            return
        self.lost()
        if not self._is_ending and not self._connection.is_stopping:
            self._tell_cancelled(why_lost(reason))
            self._wire.later(self._pause.next_s(), self.open)

    # --- subscribing ----------------------------------------------------------------------------

    def _subscribe(self) -> None:
        """Declare and consume where that is wanted, cancel where it is not."""
        if self._channel is None or self._is_cancelling or self._is_ending:
            return
        if self._is_held and self._tag is not None:
            self._cancel(self._channel)
        elif not self._is_held and self._tag is None:
            self._declarer.ensure(self._source.on_broker, self._source.plan, partial(self._declared, self._channel))

    def _declared(self, channel: Channel, error: SmenaError | None) -> None:
        if channel is not self._channel:
            return
        if error is not None:
            if not isinstance(error, BrokerLost):
                self._tell_cancelled(str(error))
            self._wire.later(self._pause.next_s(), self._subscribe)
        elif self._is_fresh:
            self._when_free(lambda: self._consume(channel))
        else:
            self._consume(channel)

    def _consume(self, channel: Channel) -> None:
        is_ready = channel is self._channel and self._tag is None and not self._is_cancelling
        if not is_ready or self._is_held or self._is_ending:
            return
        self._is_fresh = False
        source = self._source
        tag = self._tag = f"{source.name}-{next(self._numbers)}"
        if self._reception is not None:
            self._reception.expect(tag, source.name)
        channel.basic_qos(prefetch_count=self._prefetch)
        channel.basic_consume(
            source.on_broker,
            on_message_callback=_unreached,
            consumer_tag=tag,
            callback=lambda _frame: self._consuming(),
        )

    def _consuming(self) -> None:
        self._pause.reset()
        events.emit(events.CONSUMER_STARTED, queue=self._source.on_broker, prefetch=self._prefetch)

    def _cancelled_by_broker(self, frame: Any) -> None:
        if self._tag != str(frame.method.consumer_tag):
            return
        self._tag = None
        self._declarer.forget_key(self._source.on_broker)
        self._tell_cancelled("cancelled by the broker")
        self._wire.later(self._pause.next_s(), self._subscribe)

    def _tell_cancelled(self, why: str) -> None:
        events.emit(events.CONSUMER_CANCELLED, queue=self._source.on_broker, why=why)

    # --- ending ---------------------------------------------------------------------------------

    def _cancel(self, channel: Channel) -> None:
        tag, self._tag = self._tag, None
        self._is_cancelling = True
        channel.basic_cancel(str(tag), callback=lambda _frame: self._ended(channel))

    def _ended(self, channel: Channel) -> None:
        if channel is not self._channel:
            return
        self._is_cancelling = False
        if self._is_ending:
            self._tell_silence()
        else:
            self._subscribe()

    def _tell_silence(self) -> None:
        """Tell that nothing comes any more, after all that came by the same read."""
        if self._reception is not None:
            self._reception.read_ends()
        done, self._silent = self._silent, None
        if done is not None:
            done()

    def _hand_back(self) -> None:
        """Settle what was settled, give the rest back from the first on, and wait for the channel's answer."""
        if self._reception is None or self._channel is None:
            self._has_closed()
            return
        self._reception.tags.hand_back()
        self._channel.close()

    def _has_closed(self) -> None:
        done, self._closing = self._closing, None
        if done is not None:
            done()


def _unreached(*_arguments: object) -> None:
    """Deliveries are taken out of the stream before pika sees them."""
