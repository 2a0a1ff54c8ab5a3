"""Take messages from queues and hand them over as they come; stay subscribed whatever happens.

A lost connection, a channel that the broker closes, a subscription that it cancels, a queue that was
deleted: each ends in declaring and subscribing again after a jittered pause. Deliveries of a channel that
is gone are dead (`Delivery.alive`): the broker hands them out again, so what has not started is forgotten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, Final

from pika.channel import Channel

from smena.amqp.faults import why_lost
from smena.amqp.link import Connection
from smena.amqp.topology import Declarer
from smena.backoff import Backoff, Pause
from smena.errors import BrokerLost, SmenaError
from smena.telemetry import events
from workers.broker.delivery import ISOLATED_S, Drops, Tags
from workers.broker.prefetch import Prefetch
from workers.broker.reception import Deliver, Reception
from workers.broker.source import Source

__all__ = ["Consumer", "Deliver"]

_ROOM_CHECK_S: Final = 0.02
_RESUBSCRIBE: Final = Backoff(base_s=0.2, cap_s=3.0, floor_s=0.05)


class Subscription:
    """One source: its consumer tag while it has one, and the pause before it is tried again."""

    __slots__ = ("has_begun", "pause", "source", "tag")

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tag: str | None = None
        self.has_begun = False
        self.pause = Pause(_RESUBSCRIBE)


class Consumer:
    """Consume sources on one channel. `observe`, `pause`, `resume` and `cancel` may come from any thread.

    ``deliver`` is called on the link thread with all that one read gave; it must be quick and not raise.
    """

    def __init__(
        self, connection: Connection, sources: Sequence[Source], deliver: Deliver, prefix: str, prefetch: Prefetch
    ) -> None:
        self.name = "consumer"
        self._connection = connection
        self._post = connection.thread.post
        self._deliver = deliver
        self._prefetch = prefetch
        self._declarer = Declarer(connection, prefix)
        self._subscriptions = [Subscription(source) for source in sources]
        self._channel: Channel | None = None
        self._reception: Reception | None = None
        self._numbers = count(1)
        self._ending: deque[str] = deque()
        self._is_ending = False
        self._holding = False
        self._cancelled: list[Callable[[], object]] | None = None
        self._drops = Drops()

    # --- from any thread ----------------------------------------------------------------------

    def start(self) -> None:
        """Subscribe whenever the connection is up."""
        self._connection.listen(self)

    def pause(self) -> None:
        """Take nothing more for now; what was delivered stays."""
        self._post(lambda: self._hold(holding=True))

    def resume(self) -> None:
        """Take messages again."""
        self._post(lambda: self._hold(holding=False))

    def cancel(self, done: Callable[[], object]) -> None:
        """Take nothing more for ever; ``done`` is called on the link thread when nothing more can come."""
        self._post(lambda: self._cancel(done))

    def observe(self, finished: int, busy_s: float) -> None:
        """Let the prefetch follow: jobs ended since the last call, and the sum of their run times."""
        if self._prefetch.observe(finished, busy_s):
            self._post(self._renew)

    def is_subscribed(self) -> bool:
        """Say whether every source is subscribed now."""
        return all(subscription.tag is not None for subscription in self._subscriptions)

    def has_begun(self) -> bool:
        """Say whether every source was subscribed once, as the broker has confirmed."""
        return all(subscription.has_begun for subscription in self._subscriptions)

    def dropped(self) -> int:
        """Return how many settles came too late for their channel."""
        return self._drops.count

    def flush(self, done: Callable[[], object]) -> None:
        """Have all that was settled told to the broker; ``done`` is called on the link thread when it is written."""
        self._post(lambda: self.later(2 * ISOLATED_S, done))

    # --- what `Tags` needs of the link ----------------------------------------------------------

    def post(self, call: Callable[[], object]) -> None:
        """Have a call made on the link thread."""
        self._post(call)

    def later(self, delay_s: float, call: Callable[[], object]) -> None:
        """Have a call made on the link thread after a while."""
        self._connection.thread.loop.call_later(delay_s, call)

    def write(self, data: bytes) -> None:
        """Send frames at the end of this pass."""
        self._connection.write(data)

    # --- told by the connection ---------------------------------------------------------------

    def connection_up(self) -> None:
        """Open the channel of this epoch."""
        self._connection.open_channel(self._opened)

    def connection_down(self, _reason: str) -> None:
        """Forget the channel and all that came by it."""
        self._channel_ends()

    def connection_unblocked(self) -> None:
        """Do nothing: consuming is never blocked."""

    def _opened(self, channel: Channel) -> None:
        self._channel = channel
        tags = Tags(channel.channel_number, self, self._drops)
        self._reception = Reception(tags, self._deliver, self._connection.thread.clock)
        self._connection.tap.sinks[channel.channel_number] = self._reception
        channel.add_on_close_callback(self._closed)
        channel.add_on_cancel_callback(self._cancelled_by_broker)
        self._subscribe_all()

    def _closed(self, channel: Channel, reason: BaseException) -> None:
        self._connection.tap.sinks.pop(channel.channel_number, None)
        if channel is not self._channel or not self._connection.is_up:
            return
        self._channel_ends()
        if self._connection.is_stopping:
            return
        for subscription in self._subscriptions:
            self._tell_cancelled(subscription, why_lost(reason))
        self.later(max(subscription.pause.next_s() for subscription in self._subscriptions), self._reopen)

    def _reopen(self) -> None:
        if self._channel is None and self._connection.is_up:
            self.connection_up()

    def _channel_ends(self) -> None:
        self._channel = None
        self._ending.clear()
        self._is_ending = False
        for subscription in self._subscriptions:
            subscription.tag = None
        if self._reception is not None:
            self._reception.tags.end()
            self._reception = None
        self._tell_if_cancelled()

    # --- subscribing --------------------------------------------------------------------------

    def _subscribe_all(self) -> None:
        for subscription in self._subscriptions:
            self._subscribe(subscription)

    def _wants(self, subscription: Subscription) -> bool:
        may = not self._holding and self._cancelled is None
        return may and subscription.tag is None and self._channel is not None

    def _has_room(self) -> bool:
        """Say whether so little is out that a new subscription keeps memory within bounds.

        What an ended subscription has lent counts against no prefetch, so without this each renewal
        could hold a prefetch more. At least all places may be busy: half the prefetch is never less.
        What living subscriptions may hold is no reason to wait, or busy ones would keep an idle one out.
        """
        living = sum(subscription.tag is not None for subscription in self._subscriptions)
        allowed = living * self._prefetch.share(len(self._subscriptions)) + self._prefetch.current // 2
        return self._reception is not None and self._reception.tags.out() <= allowed

    def _subscribe(self, subscription: Subscription) -> None:
        """Declare first: to consume a queue that is not there would cost the channel and all that is out."""
        if self._wants(subscription) and not self._has_room():
            self.later(_ROOM_CHECK_S, partial(self._subscribe, subscription))
        elif self._wants(subscription):
            source = subscription.source
            self._declarer.ensure(source.on_broker, source.plan, lambda error: self._declared(subscription, error))

    def _declared(self, subscription: Subscription, error: SmenaError | None) -> None:
        if error is not None:
            if not isinstance(error, BrokerLost):
                self._tell_cancelled(subscription, str(error))
            self.later(subscription.pause.next_s(), lambda: self._subscribe(subscription))
        elif self._wants(subscription) and self._channel is not None:
            self._consume(self._channel, subscription)

    def _consume(self, channel: Channel, subscription: Subscription) -> None:
        """Subscribe under a fresh tag: a reused one with unacked messages kills the connection on 3.10."""
        source = subscription.source
        tag = subscription.tag = f"{source.name}-{next(self._numbers)}"
        if self._reception is not None:
            self._reception.expect(tag, source.name)
        prefetch = self._prefetch.share(len(self._subscriptions))
        channel.basic_qos(prefetch_count=prefetch)
        channel.basic_consume(
            source.on_broker,
            on_message_callback=_unreached,
            consumer_tag=tag,
            callback=lambda _frame: self._consuming(subscription, prefetch),
        )

    def _consuming(self, subscription: Subscription, prefetch: int) -> None:
        subscription.pause.reset()
        subscription.has_begun = True
        events.emit(events.CONSUMER_STARTED, queue=subscription.source.on_broker, prefetch=prefetch)

    def _cancelled_by_broker(self, frame: Any) -> None:
        tag = str(frame.method.consumer_tag)
        if self._reception is not None:
            self._reception.expect_no_more(tag)
        if tag in self._ending:
            self._ending.remove(tag)
        for subscription in self._subscriptions:
            if subscription.tag == tag:
                subscription.tag = None
                self._declarer.forget_key(subscription.source.on_broker)
                self._tell_cancelled(subscription, "cancelled by the broker")
                self.later(subscription.pause.next_s(), partial(self._subscribe, subscription))

    def _tell_cancelled(self, subscription: Subscription, why: str) -> None:
        events.emit(events.CONSUMER_CANCELLED, queue=subscription.source.on_broker, why=why)

    # --- ending subscriptions -----------------------------------------------------------------

    def _hold(self, *, holding: bool) -> None:
        self._holding = holding
        if holding:
            self._unsubscribe_all()
        else:
            self._subscribe_all()

    def _renew(self) -> None:
        """Cancel, and consume with the new prefetch: a changed qos does nothing to a live consumer."""
        self._unsubscribe_all()

    def _cancel(self, done: Callable[[], object]) -> None:
        if self._cancelled is None:
            self._cancelled = []
        self._cancelled.append(done)
        self._unsubscribe_all()
        self._tell_if_cancelled()

    def _unsubscribe_all(self) -> None:
        for subscription in self._subscriptions:
            if subscription.tag is not None:
                self._ending.append(subscription.tag)
                subscription.tag = None
        self._end_next()

    def _end_next(self) -> None:
        """Cancel one tag after the other: pika would tell all who wait of the first that has ended."""
        if self._channel is None or self._is_ending:
            return
        if self._ending:
            tag = self._ending.popleft()
            self._is_ending = True
            self._channel.basic_cancel(tag, callback=lambda _frame: self._ended(tag))
        else:
            self._subscribe_all()  # if that is wanted still, or again
            self._tell_if_cancelled()

    def _ended(self, tag: str) -> None:
        self._is_ending = False
        if self._reception is not None:
            self._reception.expect_no_more(tag)
        self._end_next()

    def _tell_if_cancelled(self) -> None:
        if self._cancelled and (self._reception is None or not self._reception.expects_any()):
            waiting, self._cancelled = self._cancelled, []
            for done in waiting:
                done()


def _unreached(*_arguments: object) -> None:
    """Deliveries are taken out of the stream before pika sees them."""
