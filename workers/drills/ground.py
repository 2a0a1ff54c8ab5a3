"""What a drill's fault acts on: the fleet, its load, its services, and what database and broker say of them."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from smena.errors import SmenaError
from workers.drills.bar import Bar
from workers.drills.fleet import Fleet, FleetPlan, is_stopped, send
from workers.drills.load import Load
from workers.drills.queues import QueueView
from workers.drills.sight import Sight
from workers.drills.tcp_proxy import TcpProxy
from workers.local.services import LocalServices

PATIENCE_S: Final = 30.0
_UNGUARDED_S: Final = 4.0
_LOOK_S: Final = 0.02
_STOPS_S: Final = 5.0


class NotInTime(SmenaError):
    """What the drill waited for did not come."""


@dataclass
class Ground:
    """One run of one drill. ``services`` raises `NotOurs` for a service whose address was given."""

    run: str
    seconds: float
    services: LocalServices
    environ: Mapping[str, str]
    folder: Path
    plan: FleetPlan
    guard: str | None
    sight: Sight
    load: Load
    queues: Callable[[], QueueView]
    sends_to: Mapping[str, str]
    """The environment of the sender, which is no part of the fleet."""
    look: Callable[[], None]
    """Raises when all is to end."""
    fleets: list[Fleet] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    notes: dict[str, float | str] = field(default_factory=dict)
    bite: int = 0
    recover_s: float | None = None
    struck_at: float = 0.0
    proxies: dict[str, TcpProxy] = field(default_factory=dict)
    """What stands before the fleet's services, by the address's variable, where the drill's `around` has put it."""

    # The fleet

    @property
    def fleet(self) -> Fleet:
        """Return the fleet that was started last."""
        return self.fleets[-1]

    def new_fleet(self, plan: FleetPlan | None = None) -> Fleet:
        """Return one more fleet, not started; it is ended with the drill."""
        name = f"fleet-{len(self.fleets)}"
        fleet = Fleet(name, plan or self.plan, self.environ, self.folder, self.guard)
        self.fleets.append(fleet)
        return fleet

    def full(self, *processes: int) -> dict[int, int]:
        """Wait until each of these processes (or all workers) has as many jobs running as threads; return the jobs."""
        wanted = processes or tuple(self.fleet.workers())

        def busy() -> bool:
            running = list(self.sight.running().values())
            return all(running.count(pid) >= self.plan.threads for pid in wanted)

        self.until(busy, "the workers to be busy")
        return self.sight.running()

    @contextmanager
    def stopped(self, *pids: int) -> Iterator[None]:
        """Hold processes still by SIGSTOP, so that what the database says of them cannot change; let them go after."""
        for pid in pids:
            send(pid, signal.SIGSTOP)
        try:
            self.until(lambda: is_stopped(pids), "the processes to stop", _STOPS_S)
            yield
        finally:
            for pid in pids:
                send(pid, signal.SIGCONT)

    def kill(self, *pids: int, least: int = 1, only: Sequence[int] = ()) -> list[int]:
        """Kill processes by SIGKILL when they run at least so many jobs, and strike with them; return those jobs.

        They are held still for the look, so that nothing changes between it and the kill; with ``only`` these of them
        are killed, and the others let go.
        """
        struck: list[int] = []

        def killed() -> bool:
            with self.stopped(*pids):
                struck[:] = [number for number, pid in self.sight.running().items() if pid in pids]
                if len(struck) >= least:
                    self.strike(len(struck))
                    for pid in only or pids:
                        send(pid, signal.SIGKILL)
            return len(struck) >= least

        self.until(killed, f"{least} jobs to run in what is to be killed")
        return struck

    # What it did

    def strike(self, bite: int) -> None:
        """Note that the fault is made now, and how many jobs it hit."""
        self.bite += bite
        self.struck_at = time.monotonic()

    def recovered(self, condition: Callable[[], object], what: str, within_s: float | None = None) -> float:
        """Wait until the fleet is back; return, and keep, how long that took since the strike."""
        self.until(condition, what, within_s)
        self.recover_s = time.monotonic() - self.struck_at
        return self.recover_s

    def note_worst(self, name: str, value: float, bound: float = 0) -> None:
        """Have the worst of several measures judged."""
        before = [bar for bar in self.bars if bar.name == name]
        self.bars = [bar for bar in self.bars if bar.name != name]
        self.bar(name, max([value, *(bar.value for bar in before)]), bound)

    def bar(self, name: str, value: float, bound: float, *, at_most: bool = True) -> None:
        """Have a measure judged."""
        self.bars.append(Bar(name, round(value, 3), bound, at_most))

    def until(self, condition: Callable[[], object], what: str, within_s: float | None = None) -> float:
        """Wait until the condition holds and return how long it took; raise `NotInTime` when it does not.

        Where a guard is out it may never hold, and unless a time is given it is not waited for as long.
        """
        within_s = within_s or (PATIENCE_S if self.guard is None else _UNGUARDED_S)
        began = time.monotonic()
        while not condition():
            self.look()
            if time.monotonic() - began > within_s:
                raise NotInTime(f"waited {within_s:g} s for {what}")
            time.sleep(_LOOK_S)
        return time.monotonic() - began

    def go_on(self, seconds: float) -> None:
        """Let the load run for a while; there is nothing to wait for but time."""
        ends_at = time.monotonic() + seconds
        self.until(lambda: time.monotonic() >= ends_at, "time to pass", seconds + 1)

    def delivered(self) -> int:
        """Return how many accepted jobs have left the queue and not ended, by broker and database."""
        view = self.queues()
        try:
            waiting = view.waiting()
        finally:
            view.close()
        accepted, effects, dead, unsent = self.sight.standing()
        return max(0, accepted - effects - dead - unsent - waiting)
