"""Send on what ended its delay at a queue that was not there.

The target is declared, bound, and sent the message with confirm; then the lost one is acked. What has no
target that could be declared becomes a dead letter `no_queue`. What cannot be decided now waits here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from smena.amqp import codec
from smena.amqp.names import check_queue_name, delayed_target, lost_queue, work_queue
from smena.amqp.outgoing import Outcomes, Outgoing
from smena.clock import Clock, Deadline
from smena.errors import Misconfigured, NoQueue, Permanent, SmenaError, Undecodable
from smena.lifecycle import Loop
from smena.telemetry import events
from workers.broker.delivery import Delivery
from workers.roles.archivist import BATCH, BATCH_BYTES, Shelf
from workers.roles.inbox import Inbox
from workers.roles.letters import letter_of

_WAIT_S: Final = 0.5
_CANARY: Final = "canary"


class Publisher(Protocol):
    """What publishes and waits."""

    def publish_and_wait(self, outgoings: Sequence[Outgoing]) -> Outcomes:
        """Return an outcome for each message."""


class LostAndFound(Loop):
    """The loop from the queue of the lost to their targets; a service. ``deliver`` is for the consumer."""

    def __init__(
        self,
        publisher: Publisher,
        declare_target: Callable[[str], None],
        shelf: Shelf,
        prefix: str,
        clock: Clock,
    ) -> None:
        super().__init__("lost-and-found", self._round, events.loop_failed)
        self._publisher = publisher
        self._declare_target = declare_target
        self._shelf = shelf
        self._prefix = prefix
        self._clock = clock
        self._inbox = Inbox()
        self.deliver = self._inbox.put

    def stop(self, deadline: Deadline) -> bool:
        """End after the current batch; what is not sent on stays with the broker."""
        self.ask_to_stop()
        self._inbox.knock()
        return super().stop(deadline)

    def _round(self, stopping: threading.Event) -> None:
        sent = dead = 0
        try:
            for delivery in self._inbox.head(BATCH, BATCH_BYTES, _WAIT_S):
                if stopping.is_set():
                    return
                is_sent_on = self._is_seen_to(delivery)
                delivery.ack()
                sent, dead = sent + is_sent_on, dead + (not is_sent_on)
        finally:
            if sent or dead:
                events.emit(events.ARCHIVIST_LOST_SENT_ON, sent=sent, dead=dead)

    def _is_seen_to(self, delivery: Delivery) -> bool:
        """Take the first of the line and say whether it was sent on, not buried; on any failure it goes to the end."""
        self._inbox.done([delivery])
        try:
            return self._is_sent_on(delivery)
        except BaseException:
            self._inbox.put([delivery])
            raise

    def _is_sent_on(self, delivery: Delivery) -> bool:
        """Send it on, or bury it; say which. Raise what passes."""
        try:
            if delayed_target(delivery.routing_key) == _CANARY:
                return True  # its keeper calls it late; there is no use in a late one
            queue = _target(delivery)
            self._declare_target(queue)
            self._send_on(delivery, queue)
            return True
        except (Permanent, Misconfigured) as error:
            self._bury(delivery, error)
            return False

    def _send_on(self, delivery: Delivery, queue: str) -> None:
        properties = delivery.properties
        carried = msgspec.structs.replace(
            properties, headers=codec.carried_headers(properties), delivery_mode=2, expiration=None, user_id=None
        )
        outgoing = Outgoing("", work_queue(self._prefix, queue), delivery.body, carried, queue, any_size=True)
        outcome = self._publisher.publish_and_wait([outgoing])[0]
        if outcome is not None:
            raise outcome

    def _bury(self, delivery: Delivery, error: SmenaError) -> None:
        letter = letter_of(
            delivery, source=lost_queue(self._prefix), clock=self._clock, reason=NoQueue.code, error_text=str(error)
        )
        refusal = self._shelf.insert_many([letter])[0]
        if refusal is not None:
            raise refusal


def _target(delivery: Delivery) -> str:
    """Return the logical queue that a delay was to end in; raise `NoQueue` if there can be none."""
    queue = delayed_target(delivery.routing_key) or _queue_of_body(delivery)
    try:
        return check_queue_name(queue)
    except Misconfigured as error:
        raise NoQueue(str(error)) from error


def _queue_of_body(delivery: Delivery) -> str:
    try:
        return codec.decode(delivery.body, delivery.properties).queue
    except Undecodable as error:
        raise NoQueue("neither routing key nor body names one", routing_key=delivery.routing_key[:200]) from error
