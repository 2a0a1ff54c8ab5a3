"""Add up what the children have counted, so that a child's death takes nothing away and leaves nothing behind.

Children report cumulative snapshots. The last of each living child is kept by pid; when a child dies its counts go
into one base and its gauges are forgotten. Memory follows the number of actors and queues, never the number of
children that have been. A snapshot that cannot be added (another build's buckets) is left out and said.
"""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Iterable, Mapping

from smena.telemetry import events
from smena.telemetry.histogram import BOUNDS_S, BUCKETS
from smena.telemetry.metric import CHILDREN, CHILDREN_REPLACED, RELIEF_GAP, STRIKES
from smena.telemetry.plain_text import error_text
from smena.telemetry.tally import Snapshot, empty, merge, without_gauges


class Tallies:
    """The fleet's figures; used by the arbiter's thread only."""

    def __init__(self) -> None:
        self._base = empty()
        self._living: dict[int, Snapshot] = {}

    def keep(self, pid: int, snapshot: Snapshot) -> None:
        """Take a living child's newest snapshot in place of the one before."""
        self._living[pid] = snapshot

    def fold(self, pid: int) -> None:
        """Take a dead child's last snapshot into the base."""
        last = self._living.pop(pid, None)
        if last is not None:
            self._base = _added(self._base, without_gauges(last))

    def count_replaced(self, role: str) -> None:
        """Count one child put in the place of another."""
        self._base = _added(self._base, {"counters": {CHILDREN_REPLACED.name: {role: 1}}})

    def count_struck(self, actor: str, why: str) -> None:
        """Count one job that is under suspicion, or to blame, for a death."""
        self._base = _added(self._base, {"counters": {STRIKES.name: {f"{actor}|{why}": 1}}})

    def note_gap(self, role: str, gap_s: float) -> None:
        """Note for how long a relief left a child fewer ready than wanted."""
        counts = [0] * BUCKETS
        counts[bisect_left(BOUNDS_S, gap_s)] = 1
        name = RELIEF_GAP.name
        self._base = _added(self._base, {"histograms": {name: {role: counts}}, "sums": {name: {role: gap_s}}})

    def figures(self, children: Mapping[str, float]) -> tuple[Snapshot, ...]:
        """Return all figures, of the dead and the living, and the number of children by role and state.

        They are not added up yet (`added`): that is the work of whoever is asked for metrics.
        """
        return (self._base, {"gauges": {CHILDREN.name: dict(children)}}, *self._living.values())


def added(snapshots: Iterable[Snapshot]) -> Snapshot:
    """Return the sum of snapshots, without those that do not fit."""
    return functools.reduce(_added, snapshots, empty())


def _added(total: Snapshot, snapshot: Snapshot) -> Snapshot:
    try:
        return merge(total, snapshot)
    except (AttributeError, TypeError, ValueError) as failure:
        events.emit(events.HOOK_FAILED, hook="tallies", told="report", error=error_text(failure))
        return total
