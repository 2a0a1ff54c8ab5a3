"""Own a share of a group's partitions: the service that a partitioned role starts, one for each group in a process.

Its tenant is told which partitions to work. Between them stands this promise: at any moment at most one process has
`term_of(p)`, and it has it no longer than its lease, whatever is slow, frozen or cut off; what a process writes after
that fails at the fence (`smena/store/terms.py`) once another has taken over. Every partition is owned again within
the lease and one look after its owner died, as long as any member lives.

Three threads: the heart (`heart.py`) beats and renews, the steward (`steward.py`) claims and releases, and this loop
calls the tenant and watches the clock; it asks nobody, so that a lease that runs out is told of in time, also when
PostgreSQL does not answer. `docs/discussion/partitions.md` has the whole.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from sharding.heart import BEATS_A_LEASE, Heart, Membership
from sharding.leases import lease_name
from sharding.line import Line
from sharding.steward import Steward
from sharding.tenures import Tenure, Tenures
from smena.clock import Clock, Deadline
from smena.lifecycle import Loop
from smena.store.database import Database
from smena.store.terms import Term
from smena.telemetry import events

__all__ = ["Partitions", "Tenant", "lease_name"]

LONGEST_REST_S: Final = 1.0
_GOODBYE_S: Final = 3.0
"""How long the stop waits for the release of what everybody has already let go of."""


class Tenant(Protocol):
    """Who works the partitions of one group in this process; called on the service's thread, must not block."""

    def begin(self, partition: int, term: int) -> None:
        """Work this partition, under this term, from now on."""

    def give_up(self, partition: int, done: Callable[[], None]) -> None:
        """Finish the key in hand, let go, then call ``done`` (from any thread): the lease is released then."""

    def lost(self, partition: int) -> None:
        """Stop at once, drop the socket, write nothing more: it may be another's by now."""


class Partitions(Loop):
    """A process's share of one group.

    ``owner`` is a random id for each boot, ``worker`` what an operator calls the process. A group whose number of
    partitions in the database is not ``count`` is not worked, nor joined (`partition.count_differs`).
    """

    def __init__(
        self,
        database: Database,
        group: str,
        count: int,
        tenant: Tenant,
        *,
        lease_s: float,
        clock: Clock,
        owner: str,
        worker: str = "",
    ) -> None:
        super().__init__(f"partitions {group}", self._round, events.loop_failed)
        self.group = group
        self.count = count
        self._tenant = tenant
        self._started = self._closed = False
        self._clock = clock
        self._cue = threading.Event()
        self._calls: deque[Callable[[], None]] = deque()
        self._tenures = Tenures(clock)
        us = Membership(group, count, owner, worker, lease_s)
        beat_s = lease_s / BEATS_A_LEASE
        self._steward = Steward(Line(database, lease_s), us, self._tenures, clock, self._on_claim, self._on_ask)
        self._heart = Heart(Line(database, beat_s), us, self._tenures, clock, self._on_beat)

    def term_of(self, partition: int) -> int | None:
        """Return the term under which the partition is ours at this moment, by the local clock; None if it is not."""
        term = self._tenures.term_of(partition)
        return None if term is None else term.number

    def fence_of(self, partition: int) -> Term | None:
        """Return the same as what `terms.fence` takes."""
        return self._tenures.term_of(partition)

    def owned(self) -> dict[int, int]:
        """Return the partitions that are ours at this moment, each with its term."""
        terms = {tenure.partition: self.term_of(tenure.partition) for tenure in self._tenures.held()}
        return {partition: term for partition, term in terms.items() if term is not None}

    def start(self) -> None:
        """Begin to take part; partitions come as the plan and their owners allow."""
        self._started = True
        super().start()
        self._heart.start()
        self._steward.start()

    def stop(self, deadline: Deadline) -> bool:
        """Hand everything over; what the tenant has not let go of by the deadline is lost to it, and runs out."""
        if not self._started:
            return True
        if not self._closed:
            self._leave(deadline)
        self.ask_to_stop()
        self._cue.set()
        ended = [super().stop(deadline)]
        self._closed = True
        for tenure in self._tenures.lapse(close=True):
            self._lose(tenure, "stopped")
        ended += [self._heart.stop(deadline), self._steward.stop(deadline)]
        return all(ended)

    def _leave(self, deadline: Deadline) -> None:
        self._steward.leave()
        while self._tenures.held() and not deadline.passed():
            self._steward.has_left(min(0.05, deadline.left_s()))
        self._steward.has_left(min(_GOODBYE_S, deadline.left_s()))

    def _round(self, _stopping: threading.Event) -> None:
        self._cue.clear()
        while self._calls:
            self._calls.popleft()()
        for tenure in self._tenures.lapse():
            self._lose(tenure, "taken" if tenure.is_over else "lapsed")
        self._cue.wait(self._rest_s())

    def _rest_s(self) -> float:
        next_s = self._tenures.next_lapse_s()
        return LONGEST_REST_S if next_s is None else min(LONGEST_REST_S, max(0.0, next_s - self._clock.monotonic()))

    def _on_beat(self) -> None:
        """Look at what the beat found; called by the heart."""
        self._cue.set()

    def _on_claim(self, tenure: Tenure) -> None:
        """Put it in the line that the tenant is told; called by the steward, as is the next."""
        self._calls.append(partial(self._begin, tenure))
        self._cue.set()

    def _on_ask(self, tenure: Tenure) -> None:
        self._calls.append(partial(self._give_up, tenure))
        self._cue.set()

    def _begin(self, tenure: Tenure) -> None:
        events.emit(events.PARTITION_BEGUN, group=self.group, partition=tenure.partition, term=tenure.term.number)
        try:
            self._tenant.begin(tenure.partition, tenure.term.number)
        except Exception:
            self._let_go(tenure)  # nobody works it: another may, or we again
            raise

    def _give_up(self, tenure: Tenure) -> None:
        try:
            self._tenant.give_up(tenure.partition, partial(self._done, tenure))
        except Exception:
            self._lose(tenure, "failed")
            raise

    def _done(self, tenure: Tenure) -> None:
        """Hear that the tenant has let go; from any thread, any number of times."""
        if self._let_go(tenure):
            term = tenure.term.number
            events.emit(events.PARTITION_GIVEN_UP, group=self.group, partition=tenure.partition, term=term)

    def _lose(self, tenure: Tenure, why: str) -> None:
        term = tenure.term.number
        events.emit(events.PARTITION_LOST, group=self.group, partition=tenure.partition, term=term, why=why)
        try:
            self._tenant.lost(tenure.partition)
        finally:
            self._let_go(tenure)

    def _let_go(self, tenure: Tenure) -> bool:
        was_held = self._tenures.let_go(tenure)
        self._steward.knock()
        return was_held
