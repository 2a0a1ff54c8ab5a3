"""Beat: live on as a member and renew what is held, on a thread and a connection of its own.

At a quarter of the lease, so that two beats may fail and the third still comes in time. Nothing else runs here: what
is slow elsewhere (an actor, a claim, a tenant) delays no beat. A C extension that holds the interpreter does, and
then the lease runs out; the fence is for that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sharding import leases, members
from sharding.line import Line
from sharding.tenures import Tenures
from smena.backoff import Backoff
from smena.clock import Clock, Deadline
from smena.lifecycle import Loop
from smena.telemetry import events

BEATS_A_LEASE: Final = 4


@dataclass(frozen=True, slots=True)
class Membership:
    """Who we are in a group: ``owner`` is a random id for each boot, ``worker`` the process's name."""

    group: str
    partitions: int
    owner: str
    worker: str
    lease_s: float


class Heart(Loop):
    """The loop of the beats; a service."""

    def __init__(
        self, line: Line, membership: Membership, tenures: Tenures, clock: Clock, on_beat: Callable[[], None]
    ) -> None:
        beat_s = membership.lease_s / BEATS_A_LEASE
        again = Backoff(base_s=min(0.1, beat_s), cap_s=beat_s, floor_s=min(0.05, beat_s))
        super().__init__(f"heart {membership.group}", self._round, events.loop_failed, again)
        self._line = line
        self._us = membership
        self._tenures = tenures
        self._clock = clock
        self._on_beat = on_beat
        self._beat_s = beat_s

    def stop(self, deadline: Deadline) -> bool:
        """Stop beating."""
        ended = super().stop(deadline)
        if ended:
            self._line.close()
        return ended

    def _round(self, stopping: threading.Event) -> None:
        began_s = self._clock.monotonic()
        self.beat()
        stopping.wait(max(0.0, self._beat_s - (self._clock.monotonic() - began_s)))

    def beat(self) -> None:
        """Renew, then live on: who is thought dead while his leases last only keeps others waiting."""
        held = self._tenures.renewable()
        asked_s = self._clock.monotonic()
        with self._line.open() as connection:
            renewed = leases.renew(connection, held, self._us.lease_s)
            self._tenures.hear(held, renewed, asked_s + self._us.lease_s)
            us = self._us
            members.beat(connection, us.group, us.partitions, us.owner, us.worker, us.lease_s)
        self._on_beat()
