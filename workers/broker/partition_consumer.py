"""Consume the partitions that are this process's, on one connection.

The connection is its own: a process that finds a lease lost drops the socket, so that nothing it still holds can be
acked, and the broker gives all of it to the next owner at once. Its heartbeat is at most a third of the lease, for the
broker lets a frozen consumer go after three of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from pika.channel import Channel

from smena.amqp.link import Connection
from smena.amqp.topology import Declarer
from workers.broker.asking import Asking
from workers.broker.delivery import Drops
from workers.broker.partition_channel import Partition, PartitionChannel
from workers.broker.source import partition_source

_FREE_S: Final = 5.0
_LOOK_S: Final = 0.02
_BELIEVED_S: Final = 0.2
"""A slower answer counts for nothing: a broker whose queue does not tell within 0.25 s says that it has no consumer."""


class PartitionConsumer:
    """The channels of all partitions; every public method may be called from any thread."""

    def __init__(self, connection: Connection, prefix: str, prefetch: int, free_s: float = _FREE_S) -> None:
        """Make it; ``free_s`` is how long a former consumer of a queue is waited for."""
        self._connection = connection
        self._prefix = prefix
        self._prefetch = prefetch
        self._free_s = free_s
        self._declarer = Declarer(connection, prefix)
        self._asking = Asking(connection)
        self._drops = Drops()
        self._channels: dict[tuple[str, int], PartitionChannel] = {}
        self._is_held = False

    def start(self) -> None:
        """Follow the connection."""
        self._connection.listen(self)

    def take(self, queue: str, number: int, partition: Partition) -> None:
        """Consume a partition until it is let go."""
        self.post(lambda: self._take(queue, number, partition))

    def silence(self, queue: str, number: int, done: Callable[[], object]) -> None:
        """Take nothing more of a partition for good; ``done`` is called on the link thread when nothing comes now."""
        self.post(lambda: self._silence(queue, number, done))

    def let_go(self, queue: str, number: int, done: Callable[[], object]) -> None:
        """Let a partition go; ``done`` is called on the link thread when that is done."""
        self.post(lambda: self._let_go(queue, number, done))

    def drop(self, queue: str, number: int) -> None:
        """Drop the socket: a partition may be another's, and all that is in hand of it must be worth nothing."""
        self.post(lambda: self._drop(queue, number))

    def hold(self, queue: str, number: int, *, holding: bool) -> None:
        """Take nothing more of one partition for now, or go on."""
        self.post(lambda: self._hold(queue, number, holding=holding))

    def pause(self) -> None:
        """Take nothing more of any, for now."""
        self.post(lambda: self._hold_all(holding=True))

    def resume(self) -> None:
        """Go on."""
        self.post(lambda: self._hold_all(holding=False))

    def dropped(self) -> int:
        """Return how many settles came too late for their channel."""
        return self._drops.count

    # --- what `Tags` and the channels need of the link ------------------------------------------

    def post(self, call: Callable[[], object]) -> None:
        """Have a call made on the link thread."""
        self._connection.thread.post(call)

    def later(self, delay_s: float, call: Callable[[], object]) -> None:
        """Have a call made on the link thread after a while."""
        self._connection.thread.loop.call_later(delay_s, call)

    def write(self, data: bytes) -> None:
        """Send frames at the end of this pass."""
        self._connection.write(data)

    # --- told by the connection -----------------------------------------------------------------

    def connection_up(self) -> None:
        """Subscribe to all."""
        for channel in self._channels.values():
            channel.open()

    def connection_down(self, _reason: str) -> None:
        """Forget all channels."""
        for channel in list(self._channels.values()):
            channel.lost()

    def connection_unblocked(self) -> None:
        """Do nothing: consuming is never blocked."""

    # --- on the link thread -----------------------------------------------------------------------

    def _take(self, queue: str, number: int, partition: Partition) -> None:
        source = partition_source(self._prefix, queue, number)
        channel = PartitionChannel(
            self._connection,
            self,
            self._declarer,
            partial(self._when_free, source.on_broker),
            self._drops,
            source,
            self._prefetch,
            partition,
        )
        self._channels[queue, number] = channel
        channel.hold(holding=self._is_held)
        channel.open()

    def _silence(self, queue: str, number: int, done: Callable[[], object]) -> None:
        channel = self._channels.get((queue, number))
        if channel is None:
            done()
        else:
            channel.silence(done)

    def _let_go(self, queue: str, number: int, done: Callable[[], object]) -> None:
        channel = self._channels.get((queue, number))
        if channel is None:
            done()
            return

        def closed() -> None:
            if self._channels.get((queue, number)) is channel:
                del self._channels[queue, number]
            done()

        channel.close(closed)

    def _when_free(self, name: str, done: Callable[[], object]) -> None:
        """Wait until the queue itself has all back that another consumer held, however that ended.

        The answer to the close of a channel comes earlier, and a connection that was cut is not missed at once.
        Bounded: somebody may consume there who has no business to.
        """
        self._tell_when_free(name, self._connection.thread.clock.monotonic() + self._free_s, done)

    def _tell_when_free(self, name: str, until_s: float, done: Callable[[], object]) -> None:
        counted: list[int] = []
        clock, asked_s = self._connection.thread.clock, 0.0

        def ask(channel: Channel, reply: Callable[[Any], None]) -> None:
            def note(frame: Any) -> None:
                counted.append(frame.method.consumer_count)
                reply(frame)

            nonlocal asked_s
            asked_s = clock.monotonic()
            channel.queue_declare(name, passive=True, callback=note)

        def answer(reason: BaseException | None) -> None:
            now_s = clock.monotonic()
            is_free = counted == [0] and now_s - asked_s < _BELIEVED_S
            if reason is not None or now_s >= until_s or is_free:
                done()
            else:
                self.later(_LOOK_S, lambda: self._tell_when_free(name, until_s, done))

        if self._connection.is_up:
            self._asking.ask(ask, answer)
        else:
            done()

    def _drop(self, queue: str, number: int) -> None:
        channel = self._channels.pop((queue, number), None)
        if channel is not None:
            channel.abandon()
            self._connection.drop("a partition's lease was lost")

    def _hold(self, queue: str, number: int, *, holding: bool) -> None:
        channel = self._channels.get((queue, number))
        if channel is not None:
            channel.hold(holding=holding or self._is_held)

    def _hold_all(self, *, holding: bool) -> None:
        self._is_held = holding
        for channel in self._channels.values():
            channel.hold(holding=holding)
