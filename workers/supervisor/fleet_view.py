"""Say how the fleet is, in a value that other threads may read: who is where, live or not, ready or not.

*Live* means that every loop of every child has moved lately; a job may take as long as it likes. *Ready* means that
all wanted children are up and move, reach what they need, and nothing is being drained.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from smena.telemetry.tally import Snapshot
from workers.supervisor.child import SupervisedChild
from workers.supervisor.post import Post

State = Literal["booting", "ready", "draining"]

STALL_S = 15.0
"""A loop that has not moved for so long stands still. Loops round at least every few seconds when idle."""


@dataclass(frozen=True, slots=True)
class FleetView:
    """The fleet at one moment of the arbiter's loop."""

    state: State = "booting"
    pids: dict[str, dict[int, int]] = field(default_factory=dict)
    nurseries: dict[str, int] = field(default_factory=dict)
    leaving: tuple[int, ...] = ()
    paused: bool = False
    reloading: bool = False
    standing_still: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    figures: tuple[Snapshot, ...] = ()

    def not_ready(self) -> tuple[str, ...]:
        """Return why the fleet is not ready, in words; empty when it is."""
        draining = ("draining",) if self.state == "draining" else ()
        return (*draining, *(("paused",) if self.paused else ()), *self.missing, *self.standing_still)


def states(posts: Iterable[Post], children: Iterable[SupervisedChild]) -> dict[str, float]:
    """Return the number of children by role and state, joined as the metric's labels are."""
    counts: Counter[str] = Counter()
    held = set()
    for child in children:
        held.add(child.post.name)
        counts[f"{child.post.role.name}|{_state(child)}"] += 1
    counts.update(f"{post.role.name}|missing" for post in posts if post.name not in held)
    return dict(counts)


def _state(child: SupervisedChild) -> str:
    if child.leave_by_s is not None:
        return "leaving"
    return "starting" if child.ready_s is None else "ready"


def leaving(children: Iterable[SupervisedChild]) -> tuple[int, ...]:
    """Return the pids of those that were relieved, or are not wanted any more, and drain."""
    return tuple(child.pid for child in children if child.leave_by_s is not None)


def pids_by_role(children: Iterable[SupervisedChild]) -> dict[str, dict[int, int]]:
    """Return role, then post number, to the child's pid."""
    found: dict[str, dict[int, int]] = {}
    for child in children:
        if child.pid:
            found.setdefault(child.post.role.name, {})[child.post.number] = child.pid
    return found


def standing_still(children: Iterable[SupervisedChild], now_s: float) -> tuple[str, ...]:
    """Return the loops that have not moved for `STALL_S`, as ``worker-0 (pid 12): link stands still for 20 s``.

    A child that was ready and says nothing at all (stopped, or its interpreter held) counts as one such loop. One that
    starts or drains has no loops to watch; its budget and the kernel bound it. Of one that is stopped it is said.
    """
    found = []
    for child in children:
        if child.ready_s is None or child.draining:
            continue
        still = {name: now_s - seen.moved_s for name, seen in child.loops.items()}
        stopped = ", stopped" if child.stopped_s else ""
        still["report"] = now_s - max(child.heard_s, child.ready_s)
        found += [
            f"{child.post.name} (pid {child.pid}): {name} stands still for {age_s:.0f} s{stopped}"
            for name, age_s in still.items()
            if age_s > STALL_S
        ]
    return tuple(found)


def missing(posts: Iterable[Post], children: Iterable[SupervisedChild]) -> tuple[str, ...]:
    """Return what keeps the fleet from being ready, one line for each post that is not."""
    held = {child.post.name: child for child in children}
    return tuple(line for post in posts if (line := _lacks(post, held.get(post.name))))


def _lacks(post: Post, child: SupervisedChild | None) -> str:
    if post.looping:
        return f"{post.name}: dies again and again"
    if child is None or not child.pid:
        return f"{post.name}: not up"
    if child.ready_s is None or child.draining:
        return f"{post.name}: {'draining' if child.draining else 'starting'}"
    return f"{post.name}: cannot reach {', '.join(child.report.unready)}" if child.report.unready else ""
