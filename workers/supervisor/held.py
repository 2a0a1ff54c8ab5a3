"""End a child whose interpreter is held: C code of a job that lets no other thread run, the link's included.

The child's flight recorder keeps the tick of its link. When that has stood still for half of the broker's heartbeat
timeout the child is killed at once: a moment later the broker would take its connection for dead and give its jobs to
others, while it goes on with them (P28). To blame is the job on whose thread the child spends its time; `/proc` tells.
Where it spends none, or on a thread that serves several jobs, nobody is blamed alone, and the child has the whole of
the heartbeat timeout.

A child that was stopped (SIGSTOP, a debugger) stands still too, and holds nothing. A supervisor that has not looked
for a while, because it stood still itself, begins anew.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from smena.clock import Clock
from workers.process import recorder
from workers.process.recorder import Running
from workers.supervisor.child import SupervisedChild
from workers.supervisor.condemned import tell
from workers.supervisor.crew import Crew
from workers.supervisor.culprit import Culprit

LOOK_S: Final = 0.25
MISSED_S: Final = 3.0
"""A pause between two looks after which what stood still meanwhile says nothing."""

_MOST: Final = 0.7
"""The part of a child's processor time that one thread must have taken to be the one that holds the rest."""

_LEAST_TICKS: Final = 5
"""Processor time, in the kernel's ticks of 10 ms, below which it says nothing."""

_STOPPED: Final = frozenset("tT")


@dataclass(slots=True)
class _Seen:
    """A child's link tick, when it last moved, and what processor time its threads had taken then."""

    tick: int
    moved_s: float
    used: dict[int, int] = field(default_factory=dict)


class Held:
    """The watch over the children's links. Call `step` each round."""

    def __init__(self, crew: Crew, heartbeat_s: float, clock: Clock) -> None:
        self._crew = crew
        self._heartbeat_s = heartbeat_s
        self._clock = clock
        self._looked_s = clock.monotonic()
        self._seen: dict[SupervisedChild, _Seen] = {}

    def step(self) -> None:
        """Look at each child, a few times a second."""
        now_s = self._clock.monotonic()
        if now_s - self._looked_s < LOOK_S:
            return
        if now_s - self._looked_s > MISSED_S:
            self._seen.clear()
        self._looked_s = now_s
        watched = [
            child for child in self._crew.children if child.pid and child.ready_s is not None and not child.killed
        ]
        self._seen = {child: seen for child, seen in self._seen.items() if child in watched}
        for child in watched:
            self._look_at(child, now_s)

    def _look_at(self, child: SupervisedChild, now_s: float) -> None:
        path = child.orders.file(child.pid, "flight")
        tick = recorder.read_link_tick(path)
        if not tick:  # no such file, or its link does not run yet
            return
        seen = self._seen.get(child)
        if seen is None or seen.tick != tick or _is_stopped(child.pid):
            self._seen[child] = _Seen(tick, now_s)
            return
        still_s = now_s - seen.moved_s
        if not seen.used and still_s > self._heartbeat_s / 8:
            seen.used = _used(child.pid)
        if still_s > self._heartbeat_s / 2:
            self._judge(child, recorder.read(path), seen, still_s)

    def _judge(self, child: SupervisedChild, running: list[Running], seen: _Seen, still_s: float) -> None:
        holder = _holder(child.pid, running, seen.used)
        if holder is not None:
            child.culprit = Culprit(holder.job_id, holder.actor, holder.attempt, holder.slot, "held_interpreter")
            tell(child)
        elif not running or still_s < self._heartbeat_s:
            return
        self._crew.kill(child, f"its link has not moved for {still_s:.1f} s")


def _holder(pid: int, running: list[Running], used: dict[int, int]) -> Running | None:
    """Return the one job on whose thread nearly all of the processor time was spent since ``used`` was taken."""
    spent = {thread: ticks - used.get(thread, 0) for thread, ticks in _used(pid).items()}
    total = sum(spent.values())
    for thread, ticks in spent.items():
        if ticks >= _LEAST_TICKS and ticks >= _MOST * total:
            jobs = [job for job in running if job.thread_id == thread]
            return jobs[0] if len(jobs) == 1 else None
    return None


def _used(pid: int) -> dict[int, int]:
    """Return the processor time, in ticks, that each thread has taken so far."""
    used: dict[int, int] = {}
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError, IndexError, ValueError):
                fields = _fields(task / "stat")
                used[int(task.name)] = int(fields[11]) + int(fields[12])
    return used


def _is_stopped(pid: int) -> bool:
    with suppress(OSError, IndexError):
        return _fields(Path(f"/proc/{pid}/stat"))[0] in _STOPPED
    return False


def _fields(stat: Path) -> list[str]:
    """Return what follows the name, which may hold blanks: the state first, user and system time at 11 and 12."""
    return stat.read_text(errors="replace").rpartition(")")[2].split()
