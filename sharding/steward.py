"""See to it that this process holds what the plan gives it: claim that, ask back the rest, release what was let go.

It looks at the group twice a second, and more often while it waits for a partition that is another's yet. Whoever
first sees that members came or went makes the next plan (`plans.py`). Nothing here calls a tenant: what is begun and
what is asked back goes into a line that the service works off.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import psycopg

from sharding import leases, members, plans
from sharding.heart import Membership
from sharding.leases import lease_name
from sharding.line import Line
from sharding.plans import Plan, View
from sharding.tenures import Tenure, Tenures
from smena.backoff import Backoff, Pause
from smena.clock import Clock, Deadline
from smena.lifecycle import Loop
from smena.telemetry import events

POLL_S: Final = 0.5
"""Between two looks; what a change in the fleet costs in time, and each member in queries."""

_WAITING: Final = Backoff(base_s=0.05, cap_s=POLL_S, floor_s=0.02)
_FAILED: Final = Backoff(base_s=0.1, cap_s=POLL_S, floor_s=0.05)
_KEEP_LEASES: Final = 30
"""A silent member's row is removed after so many leases, and at the earliest after a minute."""


class Steward(Loop):
    """The loop of the looks; a service. Its methods are called from any thread."""

    def __init__(
        self,
        line: Line,
        membership: Membership,
        tenures: Tenures,
        clock: Clock,
        begin: Callable[[Tenure], None],
        ask: Callable[[Tenure], None],
    ) -> None:
        super().__init__(f"steward {membership.group}", self._round, events.loop_failed, _FAILED)
        self._line = line
        self._us = membership
        self._tenures = tenures
        self._clock = clock
        self._begin = begin
        self._ask = ask
        self._plan: Plan | None = None
        self._cue = threading.Event()
        self._leaving = threading.Event()
        self._left = threading.Event()
        self._pause = Pause(_WAITING)
        self._told_of = 0

    def knock(self) -> None:
        """Look now."""
        self._cue.set()

    def leave(self) -> None:
        """Take part no more: ask back what is held, and say so to the others."""
        self._leaving.set()
        self._cue.set()

    def has_left(self, within_s: float) -> bool:
        """Wait until everything is released and our row is gone; say whether it is."""
        return self._left.wait(within_s)

    def stop(self, deadline: Deadline) -> bool:
        """End, wherever it is."""
        self.ask_to_stop()
        self._cue.set()
        ended = super().stop(deadline)
        if ended:
            self._line.close()
        return ended

    def look(self) -> bool:
        """Look at the group and do our part; return whether nothing is left to wait for."""
        with self._line.open() as connection:
            self._release(connection)
            return self._leave(connection) if self._leaving.is_set() else self._take_part(connection)

    def _round(self, _stopping: threading.Event) -> None:
        self._cue.clear()
        if self.look():
            self._pause.reset()
            self._cue.wait(POLL_S)
        else:
            self._cue.wait(self._pause.next_s())

    def _release(self, connection: psycopg.Connection[object]) -> None:
        let_go = self._tenures.unreleased()
        leases.release(connection, let_go)
        self._tenures.release(let_go)

    def _take_part(self, connection: psycopg.Connection[object]) -> bool:
        """Do what the plan says; return whether all that it gives us is ours."""
        plan = self._plan_of(connection)
        if plan is None:
            return False
        ours = plan.of(self._us.owner)
        held = {tenure.partition for tenure in self._tenures.held()}
        for partition in held - ours:
            self._ask_back(partition)
        return self._claim(connection, ours - held)

    def _claim(self, connection: psycopg.Connection[object], wanted: set[int]) -> bool:
        if not wanted:
            return True
        asked_s = self._clock.monotonic()
        names = [lease_name(self._us.group, partition) for partition in wanted]
        terms = leases.claim(connection, names, self._us.owner, self._us.lease_s)
        for term in terms:
            tenure = self._tenures.claim(term, asked_s + self._us.lease_s)
            if tenure is not None:
                self._begin(tenure)
        return len(terms) == len(wanted)

    def _ask_back(self, partition: int) -> None:
        tenure = self._tenures.ask(partition)
        if tenure is not None:
            self._ask(tenure)

    def _plan_of(self, connection: psycopg.Connection[object]) -> Plan | None:
        """Return the plan for the members that live; None where it must be looked at again."""
        view = plans.look(connection, self._us.group, self._plan)
        if view is None:
            plans.begin(connection, self._us.group, self._us.partitions)
            return None
        self._plan = view.plan
        if len(view.plan.owners) != self._us.partitions:
            return self._refused(connection, view)
        self._told_of = 0
        if self._us.owner not in view.live and not self._leaving.is_set():
            return None  # our first beat is yet to come, or our beats do not come through
        if not view.is_settled:
            self._settle(connection, view)
            return None
        return view.plan

    def _settle(self, connection: psycopg.Connection[object], view: View) -> None:
        moved = plans.settle(connection, view)
        if moved is not None:
            members.bury(connection, self._us.group, max(60.0, _KEEP_LEASES * self._us.lease_s))
            events.emit(
                events.PARTITION_PLANNED,
                group=self._us.group,
                generation=view.plan.generation + 1,
                members=len(view.live),
                moved=moved,
            )

    def _refused(self, connection: psycopg.Connection[object], view: View) -> Plan:
        """Hold nothing of a group that is cut otherwise than we are told: keys would be in two places.

        Nor be given a share, which nobody would own: whoever joined before the group began, or was resized, leaves.
        No beat joins again until the numbers agree.
        """
        plan = view.plan
        if self._us.owner in view.live:
            members.forget(connection, self._us.group, self._us.owner)
        if self._told_of != len(plan.owners):
            self._told_of = len(plan.owners)
            events.emit(
                events.PARTITION_COUNT_DIFFERS,
                group=plan.group,
                declared=self._us.partitions,
                found=len(plan.owners),
            )
        return Plan(plan.group, plan.generation, plan.members, [None] * self._us.partitions)

    def _leave(self, connection: psycopg.Connection[object]) -> bool:
        """Hand everything over; return whether that is done."""
        members.leave(connection, self._us.group, self._us.owner)
        for tenure in self._tenures.held():
            self._ask_back(tenure.partition)
        self._plan_of(connection)  # plans without us, so that the others know at once what they are waiting for
        if self._tenures.held() or self._tenures.unreleased():
            return False
        members.forget(connection, self._us.group, self._us.owner)
        self._left.set()
        return True
