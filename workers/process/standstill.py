"""Find that a process's interpreter is held: C code of a job that lets no other thread run, the link's included.

The process's flight recorder keeps the tick of its link. When that has stood still for half of the broker's heartbeat
timeout, and one thread has spent the processor time meanwhile, the jobs on that thread hold it: one or, where it is
the event loop's, those that share it. Where no thread has spent it (C code that waits and lets nobody run) only a
standstill of the whole heartbeat timeout counts, as one of all jobs. What stands still while no job runs (a boot that
imports) is held by none, so the time counts from when some do, also where the link has not ticked yet.

A process that was stopped (SIGSTOP, a debugger) stands still too, and holds nothing. Whoever has not looked for a
while, because he stood still himself, begins anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from smena.clock import Clock
from workers.process import flightfile, processor
from workers.process.flightfile import Running

LOOK_S: Final = 0.25
"""How often one looks."""

MISSED_S: Final = 3.0
"""A pause between two looks after which what stood still meanwhile says nothing."""


@dataclass(frozen=True, slots=True)
class Holders:
    """The jobs that hold a process for so long: one of them, if it is not one alone."""

    jobs: Sequence[Running]
    still_s: float
    is_seen: bool
    """Whether it was seen to be these: else all that run are listed."""

    @property
    def culprit(self) -> Running | None:
        """Return the one job that is to blame, if it is known."""
        return self.jobs[0] if self.is_seen and len(self.jobs) == 1 else None


class Standstill:
    """The watch over one process; its flight recorder's file is at ``path``."""

    def __init__(self, pid: int, path: Path, heartbeat_s: float, clock: Clock) -> None:
        self._pid = pid
        self._path = path
        self._heartbeat_s = heartbeat_s
        self._clock = clock
        self._tick = 0
        self._moved_s = self._looked_s = clock.monotonic()
        self._used: dict[int, int] = {}

    def look(self) -> Holders | None:
        """Return who holds it, if it is held by now."""
        now_s = self._clock.monotonic()
        has_missed, self._looked_s = now_s - self._looked_s > MISSED_S, now_s
        tick = flightfile.read_link_tick(self._path) or 0  # 0: no such file, or nobody has written one yet
        if tick != self._tick or has_missed or processor.is_stopped(self._pid) or not flightfile.read(self._path):
            self._tick, self._moved_s, self._used = tick, now_s, {}
            return None
        still_s = now_s - self._moved_s
        if not self._used and still_s > self._heartbeat_s / 8:
            self._used = processor.used(self._pid)
        return self._holders(still_s) if still_s > self._heartbeat_s / 2 else None

    def _holders(self, still_s: float) -> Holders | None:
        running = flightfile.read(self._path)
        thread = processor.spender(self._pid, self._used)
        held = [job for job in running if job.thread_id == thread]
        if held:
            return Holders(held, still_s, is_seen=True)
        return Holders(running, still_s, is_seen=False) if running and still_s > self._heartbeat_s else None
