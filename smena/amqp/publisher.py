"""Publish so that every message ends as confirmed or as a typed error.

Confirms and `mandatory` are always on, many messages are in flight, each has a deadline. What a lost
channel left unconfirmed is sent again on the next one under the same id until its deadline: the broker may
then hold it twice, never not at all. While the broker takes nothing (alarm), nothing is sent, and the
deadlines go on.

Errors: `TooLarge`, `Unsendable`, `DelayTooLong` before anything is sent; `Unroutable` when there is no
queue; `PublishRefused` for a nack; `TopologyMismatch` when the queue is there with other arguments;
`BrokerLost`, `BrokerBlocked` or `PublishTimeout` at the deadline, after which the message may still arrive;
`OrderBroken` for what stood behind an ordered message that got one of these. An ordered sender sends all that
failed again, in order and under the same ids: a copy that is there already does nothing.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
from collections.abc import Callable, Sequence
from typing import Final

from smena.amqp import codec, names
from smena.amqp.deadletter import Death, dead_properties
from smena.amqp.lane import Lane
from smena.amqp.link import Connection
from smena.amqp.outgoing import Batch, Outcomes, Outgoing, Pending
from smena.amqp.properties import Properties, encode_properties
from smena.amqp.window import Window
from smena.clock import Clock, Deadline
from smena.delay import seconds_of
from smena.errors import BrokerBlocked, BrokerLost, Misused, PublishTimeout, SmenaError, TooLarge, Unsendable
from smena.job import NO_DELAY, Job
from smena.settings.groups import Amqp

_GRACE_S: Final = 5.0
"""Beyond the deadline a call that waits, waits so long for the link thread; then the thread is stuck."""

_STUCK: Final = "the link thread does not answer"

_CHUNK: Final = 200
"""`send_many` hands over so many at a time: enough to fill a socket write, few enough to start early."""


class Publisher:
    """Publish on one connection. A service; belongs to the process that made it (not to its forks).

    Of a queue from which nobody takes it tells if that is so for ``attended_within_s`` from its first use.
    """

    def __init__(self, connection: Connection, settings: Amqp, clock: Clock, *, attended_within_s: float = 0.0) -> None:
        self.name = "publisher"
        self._connection = connection
        self._settings = settings
        self._clock = clock
        self._lane = Lane(connection, settings.prefix, clock, attended_within_s)
        self._window = Window(settings.publish_window, _window_bytes(settings), clock)
        self._pid = os.getpid()

    # --- what is published --------------------------------------------------------------------

    def outgoing_for(self, job: Job, delay_s: float = 0.0) -> Outgoing:
        """Return the message of a job, now or later; raise `Unsendable` or `Misconfigured` (queue name)."""
        queue = names.address(names.check_queue_name(job.queue), job.partition)
        wire = codec.encode(job)
        delay_ms = math.ceil(seconds_of(delay_s) * 1000)
        if delay_ms <= 0:
            routing_key, ordered = names.work_queue(self._settings.prefix, queue), job.partition is not None
            return Outgoing("", routing_key, wire.body, wire.properties, queue, ordered=ordered)
        if job.partition is not None:
            raise Unsendable(NO_DELAY, job=job.id)
        exchange, routing_key = names.delay_route(self._settings.prefix, delay_ms, queue)
        return Outgoing(exchange, routing_key, wire.body, wire.properties, queue)

    def dead_letter(self, queue: str, body: bytes, properties: Properties, death: Death) -> Outgoing:
        """Return the dead letter of a message as it came: its own bytes, and why, when and where it died."""
        routing_key = names.dead_queue(self._settings.prefix, queue)
        return Outgoing("", routing_key, body, dead_properties(properties, death), queue, any_size=True)

    # --- without waiting ----------------------------------------------------------------------

    def publish(
        self, outgoings: Sequence[Outgoing], done: Callable[[Outcomes], object], broken: set[str] | None = None
    ) -> None:
        """Hand messages over; ``done`` gets an outcome for each, once, on the link thread. Never blocks.

        ``done`` must be cheap and must not raise. Nothing bounds what is handed over but the caller. ``broken`` is
        shared by calls that are one to their caller: what one did not get through of a partition, the next do not send.
        """
        if os.getpid() != self._pid:
            raise Misused("a publisher was carried over a fork; make it in the process that uses it")
        if not outgoings:
            self._connection.thread.post(lambda: done([]))
            return
        batch = Batch(len(outgoings), done, broken)
        deadline_s = self._clock.monotonic() + self._settings.publish_timeout_s
        pending: list[Pending] = []
        refused: list[tuple[int, SmenaError]] = []
        for index, outgoing in enumerate(outgoings):
            try:
                pending.append(self._prepared(outgoing, batch, index, deadline_s))
            except SmenaError as error:
                refused.append((index, error))
        if refused:
            self._connection.thread.post(lambda: batch.refused(refused))
        self._lane.put(pending)

    def _prepared(self, outgoing: Outgoing, batch: Batch, index: int, deadline_s: float) -> Pending:
        if len(outgoing.body) > self._settings.max_body_bytes and not outgoing.any_size:
            raise TooLarge(bytes=len(outgoing.body), most=self._settings.max_body_bytes)
        return Pending(outgoing, encode_properties(outgoing.properties), batch, index, deadline_s)

    def results(self) -> dict[str, int]:
        """Return how many messages ended so far as `confirmed` or with which error's code; from any thread."""
        return self._lane.results.copy()

    # --- waiting for the outcome --------------------------------------------------------------

    def send(self, job: Job, *, delay_s: float = 0.0) -> None:
        """Publish one job and wait until it is confirmed; raise a typed error if it is not."""
        self._refuse_link_thread()
        error = self._publish_chunk([self.outgoing_for(job, delay_s)]).wait(self._patience_s())[0]
        if error is not None:
            raise error

    async def asend(self, job: Job, *, delay_s: float = 0.0) -> None:
        """Publish one job and await its confirm; raise a typed error if it is not."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Outcomes] = loop.create_future()

        def done(outcomes: Outcomes) -> None:
            loop.call_soon_threadsafe(_fulfil, future, outcomes)

        self.publish([self.outgoing_for(job, delay_s)], done)
        try:
            error = (await asyncio.wait_for(future, self._patience_s()))[0]
        except TimeoutError:
            raise PublishTimeout(_STUCK) from None
        if error is not None:
            raise error

    def send_many(self, jobs: Sequence[Job]) -> Outcomes:
        """Publish jobs and wait; return an outcome for each, in order (None: confirmed)."""
        self._refuse_link_thread()
        broken: set[str] = set()
        return self._collect([self._send_chunk(jobs[at : at + _CHUNK], broken) for at in range(0, len(jobs), _CHUNK)])

    def publish_and_wait(self, outgoings: Sequence[Outgoing]) -> Outcomes:
        """Publish messages and wait; what is under way is bounded by the window, whatever their number."""
        self._refuse_link_thread()
        starts = range(0, len(outgoings), _CHUNK)
        broken: set[str] = set()
        return self._collect([self._publish_chunk(outgoings[at : at + _CHUNK], broken) for at in starts])

    def _collect(self, receipts: Sequence[Receipt]) -> Outcomes:
        return [outcome for receipt in receipts for outcome in receipt.wait(self._patience_s())]

    def _patience_s(self) -> float:
        return self._settings.publish_timeout_s + _GRACE_S

    def _refuse_link_thread(self) -> None:
        if self._connection.thread.is_current():
            raise RuntimeError("the link thread cannot wait for itself")

    def _send_chunk(self, jobs: Sequence[Job], broken: set[str]) -> Receipt:
        outgoings: list[Outgoing] = []
        refused: list[tuple[int, SmenaError]] = []
        for place, job in enumerate(jobs):
            try:
                outgoings.append(self.outgoing_for(job))
            except SmenaError as error:
                refused.append((place, error))
        receipt = self._publish_chunk(outgoings, broken)
        receipt.refused = refused
        return receipt

    def _publish_chunk(self, chunk: Sequence[Outgoing], broken: set[str] | None = None) -> Receipt:
        if not chunk:
            return Receipt.of([])
        size = sum(len(outgoing.body) for outgoing in chunk)
        if not self._window.enter(len(chunk), size, Deadline.within(self._settings.publish_timeout_s, self._clock)):
            if broken is not None:
                broken.update(outgoing.declare for outgoing in chunk if outgoing.ordered and outgoing.declare)
            return Receipt.of([self._why_full() for _ in chunk])
        receipt = Receipt(lambda: self._window.leave(len(chunk), size))
        self.publish(chunk, receipt.fill, broken)
        return receipt

    def _why_full(self) -> SmenaError:
        if self._connection.blocked:
            return BrokerBlocked()
        return (
            PublishTimeout("the window is full") if self._connection.is_up else BrokerLost(self._connection.why_down())
        )

    # --- a service ----------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to publish as soon as the connection is up."""
        self._lane.start()

    def stop(self, deadline: Deadline) -> bool:
        """Wait for what is under way; what is left then gets `BrokerLost`."""
        return self._lane.stop(deadline)


class Receipt:
    """What a blocking call waits for. A bare lock: an Event costs four times as much."""

    __slots__ = ("_lock", "_on_fill", "_outcomes", "refused")

    def __init__(self, on_fill: Callable[[], None]) -> None:
        self.refused: Sequence[tuple[int, SmenaError]] = ()
        self._on_fill = on_fill
        self._outcomes: Outcomes = []
        self._lock = threading.Lock()
        self._lock.acquire()

    @classmethod
    def of(cls, outcomes: Outcomes) -> Receipt:
        """Return a receipt that is filled already."""
        receipt = cls(lambda: None)
        receipt.fill(outcomes)
        return receipt

    def fill(self, outcomes: Outcomes) -> None:
        """Take the outcomes and let the waiting one go."""
        self._outcomes = outcomes
        self._on_fill()
        self._lock.release()

    def wait(self, patience_s: float) -> Outcomes:
        """Return the outcomes; raise `PublishTimeout` when the link thread is stuck."""
        if not self._lock.acquire(timeout=patience_s):
            raise PublishTimeout(_STUCK)
        for place, error in self.refused:  # ascending, so each lands in its own place
            self._outcomes.insert(place, error)
        return self._outcomes


def _fulfil(future: asyncio.Future[Outcomes], outcomes: Outcomes) -> None:
    if not future.done():  # whoever awaited it may have been cancelled
        future.set_result(outcomes)


def _window_bytes(settings: Amqp) -> int:
    return max(64 * 1024 * 1024, 2 * settings.max_body_bytes)
