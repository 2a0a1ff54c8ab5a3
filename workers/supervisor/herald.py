"""Tell the service manager how the fleet is: systemd's notify protocol over a plain socket (``man 3 sd_notify``).

READY when all wanted children are up for the first time, RELOADING and READY again around a reload, STOPPING when a
drain begins, STATUS in words whenever they change, WATCHDOG at half the interval that was asked for. The watchdog is
fed by the arbiter's loop and only while every loop of the fleet moves, so a fleet that stands still is restarted.
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress

from smena.clock import Clock
from smena.settings.service_manager import ServiceManager
from workers.supervisor.fleet_view import FleetView


class Herald:
    """What was told last. Without a service manager it says nothing."""

    def __init__(self, manager: ServiceManager, clock: Clock) -> None:
        self._clock = clock
        self._watchdog_s = manager.watchdog_s
        self._fed_s: float | None = None
        self._was_ready = False
        self._phase = ""
        self._status = ""
        self._address = "\0" + manager.address[1:] if manager.address.startswith("@") else manager.address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) if manager.address else None
        if self._socket is not None:
            self._socket.settimeout(0.0)

    def tell(self, view: FleetView) -> None:
        """Tell what has changed; never waits, and a manager that does not listen is not told."""
        if self._socket is None:
            return
        phase = self._phase_of(view)
        if phase != self._phase and self._say(_LINES[phase]):
            self._phase = phase
        status = _in_words(view)
        if status != self._status and self._say(f"STATUS={status}"):
            self._status = status
        self._feed(view)

    def close(self) -> None:
        """Let the socket go."""
        if self._socket is not None:
            self._socket.close()

    def _phase_of(self, view: FleetView) -> str:
        if view.state == "draining":
            return "stopping"
        self._was_ready = self._was_ready or view.state == "ready"
        if not self._was_ready:
            return ""
        return "reloading" if view.reloading else "ready"

    def _feed(self, view: FleetView) -> None:
        now = self._clock.monotonic()
        is_due = self._fed_s is None or now - self._fed_s >= self._watchdog_s / 2
        if self._watchdog_s and is_due and not view.standing_still and self._say("WATCHDOG=1"):
            self._fed_s = now

    def _say(self, line: str) -> bool:
        if line == "RELOADING=1":
            line += f"\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}"
        if self._socket is not None and line:
            with suppress(OSError):
                self._socket.sendto(line.encode(), self._address)
                return True
            return False
        return True


_LINES = {"": "", "ready": "READY=1", "reloading": "RELOADING=1", "stopping": "STOPPING=1"}


def _in_words(view: FleetView) -> str:
    children = sum(map(len, view.pids.values()))
    said = [f"{view.state}, {children} children", *(("paused",) if view.paused else ()), *view.missing]
    return "; ".join(said)
