"""Keep one publishing channel open: open it with each connection, again when it closes, anew when it is of no use.

A channel that nacks, or does not answer, is given up for a new one (`smena.amqp.doubt`): its sender sends nothing more
on it, and what it leaves unanswered a second later goes out again on the next.

All but reading `current` and `is_given_up`, and `lose`, belongs to the link thread.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final, Protocol

from pika.channel import Channel

from smena.amqp.doubt import Doubt, Remedy
from smena.amqp.frames import Sink
from smena.amqp.link import Connection
from smena.clock import Clock

_REOPEN_S: Final = 0.1
_LAST_ANSWERS_S: Final = 1.0
"""So long a channel that is given up may still answer what was sent on it."""


class Sender(Sink, Protocol):
    """Who sends on the channel, and takes the broker's answers."""

    def channel_ready(self) -> None:
        """Send what has waited."""

    def channel_ends(self, reason: BaseException | None) -> None:
        """Call `PublishingChannel.lose`, with nothing being sent meanwhile, and keep what was not answered."""

    def returned(self, method: Any, properties: Any) -> None:
        """Take what the broker could not route; its confirm follows."""


class PublishingChannel:
    """The channel of one sender. ``current`` is None while there is none; ``is_given_up`` while it ends."""

    def __init__(self, connection: Connection, sender: Sender, clock: Clock) -> None:
        self.current: Channel | None = None
        self.is_given_up = False
        self._connection = connection
        self._sender = sender
        self._doubt = Doubt(connection.settings.publish_timeout_s, clock)

    def open(self) -> None:
        """Open the channel of this epoch."""
        self._connection.open_channel(self._opened)

    def lose(self) -> None:
        """Send nothing more on it; whoever calls holds the sender's lock."""
        self.current = None

    # --- what it shows ------------------------------------------------------------------------

    def asked(self) -> None:
        """Note that from now on an answer is owed."""
        self._doubt.asked()

    def answered(self, *, owes_more: bool) -> None:
        """Note that it answered; replace it if it was given up and owes nothing more."""
        self._doubt.answered()
        if self.is_given_up and self.current is not None and not owes_more:
            self._replace(self.current)

    def refused(self) -> None:
        """Judge it after a nack."""
        self._remedy(self._doubt.refused())

    def silent(self) -> None:
        """Judge it after a publish that had no answer by its deadline."""
        self._remedy(self._doubt.silent())

    def _remedy(self, remedy: Remedy) -> None:
        """Give up the channel, or the connection with it, where the doubt says so."""
        if remedy is Remedy.CONNECTION:
            self._connection.drop("no publish was answered in time")
        elif remedy is Remedy.CHANNEL and self.current is not None and not self.is_given_up:
            self.is_given_up = True
            self._connection.thread.loop.call_later(_LAST_ANSWERS_S, partial(self._replace, self.current))

    # --- its life -----------------------------------------------------------------------------

    def _opened(self, channel: Channel) -> None:
        channel.add_on_close_callback(self._closed)
        channel.add_on_return_callback(self._returned)
        channel.confirm_delivery(lambda _frame: None, callback=lambda _frame: self._ready(channel))

    def _ready(self, channel: Channel) -> None:
        self._connection.tap.sinks[channel.channel_number] = self._sender
        self._doubt.opened()
        self.is_given_up = False
        self.current = channel
        self._sender.channel_ready()

    def _returned(self, channel: Channel, method: Any, properties: Any, _body: bytes) -> None:
        if channel is self.current:  # else its numbers are not those of the channel in use
            self._sender.returned(method, properties)

    def _closed(self, channel: Channel, reason: BaseException) -> None:
        self._connection.tap.sinks.pop(channel.channel_number, None)
        if channel is not self.current or not self._connection.is_up:
            return
        self._sender.channel_ends(reason)
        self._connection.thread.loop.call_later(_REOPEN_S, self._reopen)

    def _reopen(self) -> None:
        if self.current is None and self._connection.is_up and not self._connection.is_stopping:
            self.open()

    def _replace(self, channel: Channel) -> None:
        """Open the next channel in the place of one that was given up, unless that has ended by itself."""
        if channel is not self.current or not self._connection.is_up:
            return
        self._sender.channel_ends(None)
        self._close(channel)
        self._connection.thread.loop.call_later(_REOPEN_S, self._reopen)

    def _close(self, channel: Channel) -> None:
        """Close a channel unless it is; what it answers now goes to nobody, for its numbers are not the next one's."""
        self._connection.tap.sinks.pop(channel.channel_number, None)
        if channel.is_open:
            channel.close()
