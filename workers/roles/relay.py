"""Publish outbox rows: claim what is due, publish with confirms, write down what came of it.

Several batches are under way at once: while the confirms of one come in, the next is claimed. A row is
marked only after its own confirm, under the term of its claim, so a relay that dies leaves rows that
another claims when the lease is over, and one that froze overwrites nothing. Any number of relays may run; they share
the ordering keys among them (`slots.py`).

A failure that would come again (no such queue, too large, not to be decoded) parks its row, visibly; one
that passes holds its rows back for a while and costs them nothing (P39).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from smena.amqp.outgoing import Outgoing
from smena.clock import Clock, Deadline
from smena.errors import Permanent, SmenaError
from smena.lifecycle import Loop
from smena.outbox.claims import Claims, Row
from smena.outbox.doorbell import Doorbell, Rest
from smena.telemetry import events
from workers.roles.landing import Landed, broker_is_away, tell, verdict_of
from workers.roles.slots import Slots

FLIGHTS: Final = 3
"""Batches under way at once: one is claimed, one published, one marked."""

LONGEST_REST_S: Final = 5.0
"""However long the poll: a probe takes a loop that does not move for long for dead."""

_LIGHT_SLEEP_S: Final = (0.002, 0.005, 0.01, 0.02, 0.05)
_BUSY_ROUNDS: Final = 3


class Publisher(Protocol):
    """What sends a batch without waiting for it."""

    def publish(self, outgoings: Sequence[Outgoing], done: Callable[[list[SmenaError | None]], None]) -> None:
        """Send all; call ``done`` once, from any thread, with an outcome each."""


class Relay(Loop):
    """The loop between the outbox and the broker; a service."""

    def __init__(
        self,
        claims: Claims,
        doorbell: Doorbell,
        publisher: Publisher,
        outgoing_of: Callable[[Row], Outgoing],
        broker_takes: Callable[[], bool],
        clock: Clock,
        slots: Slots,
        *,
        batch: int,
        poll_s: float,
    ) -> None:
        super().__init__("relay", self._round, events.loop_failed)
        self._claims = claims
        self._doorbell = doorbell
        self._publisher = publisher
        self._outgoing_of = outgoing_of
        self._broker_takes = broker_takes
        self._clock = clock
        self._slots = slots
        self._batch = batch
        self._poll_s = min(poll_s, LONGEST_REST_S)
        self._landed: deque[Landed] = deque()
        self._under_way = 0
        self._not_before_s = 0.0
        self._rounds_with_rows = 0
        self._rounds_in_vain = 0

    def stop(self, deadline: Deadline) -> bool:
        """Claim no more, wait for what is under way, and mark it; what is late is left to its lease."""
        self.ask_to_stop()
        self._doorbell.knock()
        ended = super().stop(deadline)
        if ended:
            self._land_all(deadline)
            self._doorbell.close()
        return ended

    def _land_all(self, deadline: Deadline) -> None:
        while self._under_way and not deadline.passed():
            self._doorbell.wait(min(deadline.left_s(), self._poll_s))
            try:
                self._land()
            except SmenaError as error:  # the database may be back before the deadline
                events.loop_failed(self.name, error)

    def connection_up(self) -> None:
        """Hear, as a listener of the connection, that the broker is there."""
        self._doorbell.knock()

    def connection_unblocked(self) -> None:
        """Hear that the broker takes messages again."""
        self._doorbell.knock()

    def connection_down(self, reason: str) -> None:
        """Hear that the broker is gone; what is under way comes back with its outcomes."""

    def _round(self, _stopping: threading.Event) -> None:
        landed = self._land()
        if self._take_off():
            self._rounds_with_rows += 1
            self._rounds_in_vain = 0
            if self._rounds_with_rows >= _BUSY_ROUNDS:
                self._doorbell.rise()
        elif not landed:
            self._rest()

    def _take_off(self) -> bool:
        """Claim a batch and send it on its way; say whether there was one."""
        if self._must_wait_s() > 0:
            return False
        held = self._slots.held()
        claimed = self._claims.take(self._batch, held)
        if not claimed:
            return False
        rows, strangers = self._slots.board(claimed, held)
        if strangers:
            self._claims.release(strangers)
            events.emit(events.RELAY_CLAIM_LOST, rows=len(strangers))
        sendable: list[Row] = []
        outgoings: list[Outgoing] = []
        for row in rows:
            try:
                outgoings.append(self._outgoing_of(row))
                sendable.append(row)
            except Permanent as error:
                self._landed.append(Landed([row], [error], flown=False))
        if sendable:
            self._publisher.publish(outgoings, lambda outcomes: self._on_outcomes(sendable, outcomes))
            self._under_way += 1
        return True

    def _on_outcomes(self, rows: list[Row], outcomes: list[SmenaError | None]) -> None:
        self._landed.append(Landed(rows, outcomes))
        self._doorbell.knock()

    def _land(self) -> bool:
        """Write down what became of the batches that are back; say whether there were any.

        They are taken off the list only afterwards: if the database does not answer, the next round tries again.
        """
        back = list(self._landed)
        if not back:
            return False
        verdict = verdict_of(back)
        lost = self._claims.settle(verdict)
        for landed in back:
            self._slots.land(landed.rows)
            self._landed.popleft()
            self._under_way -= landed.flown
        if verdict.held_back and broker_is_away(verdict.held_back):
            self._not_before_s = self._clock.monotonic() + verdict.wait_s
        tell(verdict, lost)
        return True

    def _must_wait_s(self) -> float:
        """Return how long nothing may be claimed, unless somebody knocks."""
        if self._under_way >= FLIGHTS or not self._broker_takes():
            return self._poll_s
        return min(self._poll_s, max(0.0, self._not_before_s - self._clock.monotonic()))

    def _rest(self) -> None:
        """Wait for a ring, for a batch to come back, or for the poll."""
        must_wait_s = self._must_wait_s()
        if must_wait_s > 0:
            self._doorbell.wait(must_wait_s)
            return
        rest = self._doorbell.lie_down()
        if rest is Rest.LOOK_ONCE_MORE:
            return
        self._rounds_with_rows = 0
        self._doorbell.wait(self._light_sleep_s() if rest is Rest.LIGHT else self._sound_sleep_s())

    def _light_sleep_s(self) -> float:
        self._rounds_in_vain += 1
        return _LIGHT_SLEEP_S[min(self._rounds_in_vain, len(_LIGHT_SLEEP_S)) - 1]

    def _sound_sleep_s(self) -> float:
        next_due_s = self._claims.next_due_s()
        return self._poll_s if next_due_s is None else min(self._poll_s, next_due_s)
