"""Send a canary through each delay level and tell when one does not come back in time.

A level that stands still is invisible otherwise: publishes to it are confirmed, and nothing arrives. One canary
at a time is under way in each level; it carries its level and when it was sent, so whichever process takes it
can tell how late it is. Late is beyond a grace, since many that are due at once delay each other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from smena.amqp import names
from smena.amqp.outgoing import Outcomes, Outgoing
from smena.amqp.properties import Properties
from smena.amqp.publisher import Publisher
from smena.clock import Clock
from smena.lifecycle import Loop
from smena.telemetry import events
from workers.broker.delivery import Delivery

_LEAST_PERIOD_S: Final = 60.0
_PERIODS: Final = 4
"""A level's canary flies again after so many times what the level holds."""

_LEAST_GRACE_S: Final = 30.0
_GRACE: Final = 0.1
_ROUND_S: Final = 1.0


class Note(msgspec.Struct, frozen=True):
    """What a canary carries."""

    level: int
    sent_at_ms: int


@dataclass(slots=True)
class Flight:
    """The last canary of a level; times are on the monotonic clock."""

    sent_s: float
    is_out: bool = True


class Canaries(Loop):
    """A service that sends them while ``may_send``; its `deliver` takes those that come back.

    ``may_send`` should hold in one process of the fleet, and there once its consumer of `source.canary` is
    subscribed: that is who declares the levels.
    """

    def __init__(
        self,
        publisher: Publisher,
        prefix: str,
        clock: Clock,
        may_send: Callable[[], bool],
        levels: Sequence[int] = range(names.LEVELS),
    ) -> None:
        super().__init__("canary", self._step, events.loop_failed)
        self._publisher = publisher
        self._prefix = prefix
        self._clock = clock
        self._may_send = may_send
        self._levels = levels
        self._flights: dict[int, Flight] = {}

    def deliver(self, batch: Sequence[Delivery]) -> None:
        """Take canaries that came back; on the link thread."""
        for delivery in batch:
            try:
                note = msgspec.json.decode(delivery.body, type=Note)
            except msgspec.DecodeError:
                delivery.ack()  # somebody else's message: there is nobody to tell
                continue
            late_s = (self._clock.now_ms() - note.sent_at_ms) / 1000 - held_s(note.level)
            events.emit(events.CANARY_RETURNED, delay_level=note.level, late_s=round(late_s, 3))
            flight = self._flights.get(note.level)
            if flight is not None:
                flight.is_out = False
            delivery.ack()

    def _step(self, stopping: threading.Event) -> None:
        if self._may_send():
            for level in self._levels:
                self._look_at(level)
        else:
            self._flights.clear()
        stopping.wait(_ROUND_S)

    def _look_at(self, level: int) -> None:
        flight = self._flights.get(level)
        passed_s = 0.0 if flight is None else self._clock.monotonic() - flight.sent_s
        if flight is not None and flight.is_out:
            late_s = passed_s - held_s(level)
            if late_s <= grace_s(level):
                return
            events.emit(events.CANARY_LATE, delay_level=level, late_s=round(late_s, 3))
        elif flight is not None and passed_s < max(_LEAST_PERIOD_S, _PERIODS * held_s(level)):
            return
        self._send(level)

    def _send(self, level: int) -> None:
        flight = self._flights[level] = Flight(self._clock.monotonic())
        note = Note(level, self._clock.now_ms())
        properties = Properties(content_type="application/json", delivery_mode=2, type="canary")
        exchange, routing_key = names.level_route(self._prefix, level, "canary")
        outgoing = Outgoing(exchange, routing_key, msgspec.json.encode(note), properties)
        self._publisher.publish([outgoing], partial(self._sent, flight))

    def _sent(self, flight: Flight, outcomes: Outcomes) -> None:
        if outcomes[0] is not None:
            flight.is_out = False  # it never flew; the publisher has told why


def held_s(level: int) -> float:
    """Return how long a level holds a message."""
    return (names.UNIT_MS << level) / 1000


def grace_s(level: int) -> float:
    """Return how late a canary of this level may be before anyone is told."""
    return max(_LEAST_GRACE_S, _GRACE * held_s(level))
