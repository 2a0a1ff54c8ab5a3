"""Send in order on the publishing channel: what waits, what is under way, what the broker answers.

Sending belongs to whoever holds the lane's lock: a caller's message leaves on the caller's own thread
(docs/adr/0026), what had to wait on the link thread. Answers and outcomes belong to the link thread alone.

Messages are sent in the order in which they were handed over, also again after a lost channel. When an ordered one ends
in an error, those of its queue that were handed over after it get one too and are not sent (again): the sender, who
could not know, begins again with the first that failed.

The channel's own life is that of `smena.amqp.publishing_channel`. One message that makes the broker close it must not
take the others with it: after such a close the unconfirmed are sent again one at a time until they are through, so that
the next close names its culprit.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Any

from smena.amqp.faults import is_verdict, refused_publish
from smena.amqp.fieldtable import encode_table
from smena.amqp.frames import publish_content, publish_head
from smena.amqp.link import Connection
from smena.amqp.outgoing import Pending, Unconfirmed
from smena.amqp.publishing_channel import PublishingChannel
from smena.amqp.topology import Declarer
from smena.clock import Clock, Deadline
from smena.errors import (
    BrokerBlocked,
    BrokerLost,
    OrderBroken,
    PublishRefused,
    PublishTimeout,
    SmenaError,
    Unroutable,
    Unsendable,
)
from smena.telemetry import events


class Lane:
    """The way of all messages of a publisher."""

    def __init__(self, connection: Connection, prefix: str, clock: Clock, attended_within_s: float = 0.0) -> None:
        self._connection = connection
        self._attended_within_s = attended_within_s
        self._clock = clock
        self._declarer = Declarer(connection, prefix)
        self._sending = threading.Lock()
        self._waiting: deque[Pending] = deque()
        self._declaring: dict[tuple[str, bool], list[Pending]] = {}
        self._used: set[str] = set()
        self._unconfirmed = Unconfirmed()
        self._deadlines: deque[Pending] = deque()
        self._timer_is_set = False
        self._channel = PublishingChannel(connection, self, clock)
        self.results: dict[str, int] = {}
        """How many messages ended as `confirmed` or with which error's code; written by the link thread only."""
        self._suspects = 0
        self._idle = threading.Event()
        self._stopping = False

    # --- from any thread ----------------------------------------------------------------------

    def put(self, pending: Sequence[Pending]) -> None:
        """Take messages over, and send them if nothing is in the way."""
        if not pending:
            return
        self._deadlines.extend(pending)
        with self._sending:
            self._waiting.extend(pending)
            self._pump()
        if not self._timer_is_set:
            self._connection.thread.post(self._set_timer)

    def start(self) -> None:
        """Open the channel whenever the connection is up."""
        self._connection.listen(self)

    def stop(self, deadline: Deadline) -> bool:
        """Wait until nothing is under way; what is left at the deadline gets its error."""
        self._connection.thread.post(self._begin_stop)
        if self._idle.wait(deadline.left_s()):
            return True
        self._connection.thread.post(self._give_up)
        return False

    # --- told by the connection ---------------------------------------------------------------

    def connection_up(self) -> None:
        """Open the channel of this epoch."""
        self._channel.open()

    def connection_down(self, _reason: str) -> None:
        """Keep what is unconfirmed for the next channel."""
        self.channel_ends(self._connection.last_error)

    def connection_unblocked(self) -> None:
        """Send what has waited."""
        self._send_waiting()

    # --- told by the channel ------------------------------------------------------------------

    def channel_ready(self) -> None:
        """Send what has waited."""
        self._send_waiting()

    def channel_ends(self, reason: BaseException | None) -> None:
        """Keep what is unconfirmed for the next channel; one message that alone can have closed it gets its error."""
        with self._sending:
            self._channel.lose()
            left, self._unconfirmed = self._unconfirmed.take_all(), Unconfirmed()
            culprit = None
            if reason is not None and is_verdict(reason) and left:
                culprit = left.pop() if len(left) == 1 else None
                self._suspects = len(left) or max(0, self._suspects - 1)
            self._waiting.extendleft(reversed(left))
        if culprit is not None and reason is not None:
            outgoing = culprit.outgoing
            self._settle(culprit, refused_publish(reason, outgoing.exchange, outgoing.routing_key))

    # --- sending ------------------------------------------------------------------------------

    def _send_waiting(self) -> None:
        with self._sending:
            self._pump()

    def _pump(self) -> None:
        """Send what may go now; by the holder of the lock, on any thread.

        Whoever is interrupted in the middle (a time limit strikes a job's thread at any line) may have counted a
        message that never left. Then our numbers are not the broker's any more, and the connection is given up.
        """
        channel = self._channel.current
        if self._waiting and channel is not None:
            try:
                self._connection.send(b"".join(self._leaving(channel.channel_number)))
            except BaseException:
                self._channel.lose()
                self._connection.thread.post(self._connection.drop)
                raise

    def _leaving(self, channel: int) -> Iterator[bytes]:
        """Yield the frames of what may go now, each message counted as sent."""
        waiting = self._waiting
        while waiting and not self._connection.blocked and not self._channel.is_given_up:
            if self._suspects and len(self._unconfirmed):
                return
            pending = waiting.popleft()
            if pending.outgoing.ordered and self._is_behind_a_failure(pending):
                continue
            if pending.batch is not None and self._is_declared(pending) and (head := self._head(channel, pending)):
                yield head
                yield self._content(channel, pending)

    def _is_behind_a_failure(self, pending: Pending) -> bool:
        """Say whether an earlier message of the same call and partition was not taken over; tell it so then."""
        batch, queue = pending.batch, pending.outgoing.declare
        if batch is None or queue not in batch.broken:
            return False
        self._connection.thread.post(partial(self._settle, pending, OrderBroken(queue=queue)))
        return True

    def _is_declared(self, pending: Pending) -> bool:
        """Say whether the message may go; if not, it is put aside until its queue is declared.

        What was put aside goes first, also when the queue is known already and the link thread is about to say so.
        """
        queue = pending.outgoing.declare
        if queue is None:
            return True
        delayed = pending.outgoing.exchange != ""
        if (queue, delayed) not in self._declaring and self._declarer.knows(queue, delayed=delayed):
            return True
        aside = self._declaring.setdefault((queue, delayed), [])
        aside.append(pending)
        if len(aside) == 1:
            self._connection.thread.post(partial(self._declare, queue, delayed))
        return False

    def _declare(self, queue: str, delayed: bool) -> None:
        self._declarer.queue(queue, lambda error: self._declared((queue, delayed), error), delayed=delayed)

    def _declared(self, key: tuple[str, bool], error: SmenaError | None) -> None:
        if error is None:
            self._tell_if_unattended(key[0])
        with self._sending:
            aside = self._declaring.pop(key, [])
            if error is None or isinstance(error, BrokerLost):
                self._waiting.extendleft(reversed(aside))
                self._pump()
                return
        for pending in aside:
            self._settle(pending, error)

    def _tell_if_unattended(self, queue: str) -> None:
        """Tell once, of the first use: after a restart of the broker consumers may only be slower than we are."""
        if queue not in self._used and self._declarer.is_unattended(queue):
            if self._attended_within_s:
                self._look_later(queue)
            else:
                events.emit(events.QUEUE_UNATTENDED, queue=queue)
        self._used.add(queue)

    def _look_later(self, queue: str) -> None:
        look_again = partial(self._declarer.look_again, queue, partial(self._looked_again, queue))
        self._connection.thread.loop.call_later(self._attended_within_s, look_again)

    def _looked_again(self, queue: str, error: SmenaError | None) -> None:
        if error is not None:
            self._look_later(queue)
        elif self._declarer.is_unattended(queue):
            events.emit(events.QUEUE_UNATTENDED, queue=queue)

    def _head(self, channel: int, pending: Pending) -> bytes:
        outgoing = pending.outgoing
        try:
            return _head(channel, outgoing.exchange, outgoing.routing_key)
        except ValueError as error:
            unsendable = Unsendable("exchange or routing key", error=str(error))
            self._connection.thread.post(partial(self._settle, pending, unsendable))
            return b""

    def _content(self, channel: int, pending: Pending) -> bytes:
        if not len(self._unconfirmed):
            self._channel.asked()
        header = pending.encoded.with_entry(encode_table({"smena-seq": self._unconfirmed.sent(pending)}))
        pending.sent = True
        return publish_content(channel, header, pending.outgoing.body, self._connection.body_max)

    # --- answers (a sink of the tap) ----------------------------------------------------------

    def delivered(
        self, consumer_tag: bytes, tag: int, redelivered: bool, address: bytes, header: bytes, body: bytes
    ) -> None:
        """Never called: nothing is consumed on this channel."""

    def confirmed(self, tag: int, multiple: bool, positive: bool) -> None:
        """Settle what the broker took, or did not take, or took and returned."""
        for pending in self._unconfirmed.answered(tag, multiple=multiple):
            if self._suspects:
                self._suspects -= 1
            if not positive:
                self._refused(pending)
            elif pending.returned is not None and not pending.redeclared and pending.outgoing.declare:
                self._declare_again(pending) if not pending.outgoing.ordered else self._give_up_returned(pending)
            else:
                self._settle(pending, pending.returned)

    def read_ends(self) -> None:
        """Let go of the settled, and send what has waited for them."""
        self._prune()
        self._channel.answered(owes_more=len(self._unconfirmed) > 0)
        if self._waiting:
            self._send_waiting()

    def _refused(self, pending: Pending) -> None:
        """Send it once more, by a new channel if one is due: a nack may be the channel's word, not the queue's.

        Not an ordered one, for those behind it may be in the queue already.
        """
        self._channel.refused()
        if pending.refused or pending.outgoing.ordered:
            self._settle(pending, PublishRefused("a nack"))
        else:
            pending.refused = True
            self._waiting.append(pending)

    def returned(self, method: Any, properties: Any) -> None:
        """Note the error; the confirm that follows a return settles the message."""
        pending = self._unconfirmed.get((properties.headers or {}).get("smena-seq", 0))
        if pending is not None:
            facts = {"exchange": method.exchange, "routing_key": method.routing_key}
            pending.returned = Unroutable(f"{method.reply_code} {method.reply_text}", **facts)

    def _declare_again(self, pending: Pending) -> None:
        """Declare the queue that was there in this epoch and is not now, once; nothing has the message yet."""
        pending.redeclared = True
        pending.returned = None
        self._declarer.forget(pending.outgoing.declare or "")
        self._waiting.append(pending)

    def _give_up_returned(self, pending: Pending) -> None:
        """Leave it to the sender: those behind it may lie in the queue that somebody has declared meanwhile."""
        self._declarer.forget(pending.outgoing.declare or "")
        self._settle(pending, pending.returned)

    # --- outcomes -----------------------------------------------------------------------------

    def _settle(self, pending: Pending, error: SmenaError | None) -> None:
        behind = self._behind(pending) if error is not None and pending.outgoing.ordered else ()
        self._settle_one(pending, error)
        for later in behind:  # what is under way of them may still arrive
            self._settle_one(later, OrderBroken(queue=later.outgoing.declare))

    def _behind(self, first: Pending) -> list[Pending]:
        """Return what was handed over after it for the same partition; nothing more of their calls is to be sent."""
        queue = first.outgoing.declare
        handed_over = list(self._deadlines)
        # One whose time is up was the first of all, and has been taken out.
        at = next((place for place, each in enumerate(handed_over) if each is first), -1)
        behind = [each for each in handed_over[at + 1 :] if each.outgoing.ordered and each.outgoing.declare == queue]
        for pending in (first, *behind):
            if pending.batch is not None:
                pending.batch.broken.add(queue or "")
        return behind

    def _settle_one(self, pending: Pending, error: SmenaError | None) -> None:
        batch, pending.batch = pending.batch, None
        if batch is None:
            return
        result = "confirmed" if error is None else error.code
        self.results[result] = self.results.get(result, 0) + 1
        if error is not None and events.wanted(events.PUBLISH_FAILED):
            properties, queue = pending.outgoing.properties, pending.outgoing.declare
            facts = {"job": properties.message_id, "actor": properties.type, "queue": queue, "error": str(error)}
            events.emit(events.PUBLISH_FAILED, **facts)
        try:
            batch.settled(pending.index, error)
        except Exception as failure:  # noqa: BLE001  (the seam: one caller's `done` must not cost the others theirs)
            events.loop_failed("publisher", failure)

    def _prune(self) -> None:
        deadlines = self._deadlines
        while deadlines and deadlines[0].batch is None:
            deadlines.popleft()
        if self._stopping and not deadlines:
            self._idle.set()

    def _set_timer(self) -> None:
        if not self._timer_is_set and self._deadlines:
            self._timer_is_set = True
            wait_s = max(0.0, self._deadlines[0].deadline_s - self._clock.monotonic())
            self._connection.thread.loop.call_later(wait_s, self._expire)

    def _expire(self) -> None:
        self._timer_is_set = False
        now = self._clock.monotonic()
        while self._deadlines and (self._deadlines[0].batch is None or self._deadlines[0].deadline_s <= now):
            late = self._deadlines.popleft()
            unanswered = late.batch is not None and late.sent
            self._settle_late(late)
            if unanswered and self._channel.current is not None and not self._connection.blocked:
                self._channel.silent()
        self._set_timer()
        self._prune()

    def _settle_late(self, pending: Pending) -> None:
        if self._connection.blocked:
            self._settle(pending, BrokerBlocked(sent=pending.sent))
        elif self._channel.current is None:
            self._settle(pending, BrokerLost(self._connection.why_down(), sent=pending.sent))
        else:
            self._settle(pending, PublishTimeout(sent=pending.sent))

    def _begin_stop(self) -> None:
        self._stopping = True
        self._prune()

    def _give_up(self) -> None:
        while self._deadlines:
            self._settle_late(self._deadlines.popleft())
        self._idle.set()


@lru_cache(maxsize=1024)
def _head(channel: int, exchange: str, routing_key: str) -> bytes:
    return publish_head(channel, exchange, routing_key)
