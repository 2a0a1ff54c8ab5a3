"""Change the fleet while it works, as signals ask for it, one change at a time.

Called by the arbiter, on its thread, and only while nothing is being drained.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Final

from smena.clock import Clock
from smena.telemetry import events
from workers.supervisor.budgets import Budgets
from workers.supervisor.condemned import Condemned
from workers.supervisor.crew import Crew
from workers.supervisor.held import Held
from workers.supervisor.recycling import Recycling
from workers.supervisor.reload import Reload
from workers.supervisor.scale import Scale
from workers.supervisor.status import Status
from workers.supervisor.stopped import Stopped

CHANGES: Final = (signal.SIGTTIN, signal.SIGTTOU, signal.SIGTSTP, signal.SIGCONT, signal.SIGUSR1)
"""Signals that ask for a change, or to be told how things are, beside HUP."""


class Upkeep:
    """What is being changed, and what comes next."""

    def __init__(self, crew: Crew, scale: Scale, budgets: Budgets, clock: Clock) -> None:
        self._crew = crew
        self._budgets = budgets
        self._clock = clock
        self._reload: Reload | None = None
        self._reload_is_wanted = False
        self._recycling = Recycling(crew, budgets, clock)
        self._condemned = Condemned(crew, budgets, clock)
        self._held = Held(crew, budgets.heartbeat_s, clock)
        self._stopped = Stopped(crew, budgets.stopped_s, clock)
        self._status = Status(crew, clock)
        self._on_signal: dict[signal.Signals, Callable[[], None]] = {
            signal.SIGHUP: self._ask_to_reload,
            signal.SIGUSR1: self._status.ask,
            signal.SIGTTIN: scale.up,
            signal.SIGTTOU: scale.down,
            signal.SIGTSTP: lambda: self._pause(paused=True),
            signal.SIGCONT: lambda: self._pause(paused=False),
        }

    @property
    def reloading(self) -> bool:
        """Whether a reload is under way or about to begin."""
        return self._reload is not None or self._reload_is_wanted

    def ask(self, number: signal.Signals) -> None:
        """Do what a signal asks for, or note that it is wanted."""
        self._on_signal[number]()

    def step(self) -> None:
        """Take the next step of what is under way, or begin what is wanted."""
        self._crew.sample_memory()
        self._crew.kill_overdue(self._budgets.leave_s)
        self._condemned.step()
        self._held.step()
        self._stopped.step()
        self._status.step()
        if self._reload is not None:
            self._reload.step()
            if self._reload.done:
                self._reload = None
        else:
            self._recycling.step(may_begin=not self._reload_is_wanted)
        if self._reload is None and self._reload_is_wanted and not self._recycling.under_way:
            self._reload_is_wanted = False
            self._reload = Reload(self._crew, self._budgets, self._clock)
            self._reload.begin()

    def _ask_to_reload(self) -> None:
        """Note it; asked during a reload, another follows, for there may be newer code."""
        self._reload_is_wanted = True

    def _pause(self, *, paused: bool) -> None:
        if paused != self._crew.paused:
            self._crew.pause(paused)
            events.emit(events.FLEET_PAUSED if paused else events.FLEET_RESUMED)
