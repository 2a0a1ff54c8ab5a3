"""Write down the dead, off the supervisor's own loop: a database that is away keeps it from nothing.

Burials wait, in order and bounded, until they are written. Until then whoever asks sees the dead as unburied.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from smena.clock import Deadline
from smena.lifecycle import Loop
from smena.records.strike import Strike
from smena.telemetry import events
from workers.supervisor.burial import Burial

IDLE_S: Final = 0.5
MOST: Final = 10_000


class Register(Protocol):
    """Where the dead are written down."""

    def bury(self, life: str, found: Sequence[Strike]) -> None:
        """Write what a dead process leaves behind; raises when it cannot."""


class Registrar(Loop):
    """The burials that are not written yet; a service."""

    def __init__(self, register: Register) -> None:
        super().__init__("registrar", self._round, events.loop_failed)
        self._register = register
        self._waiting: deque[Burial] = deque(maxlen=MOST)
        self._cue = threading.Event()
        self._written = threading.Event()

    def bury(self, burial: Burial) -> None:
        """Take a burial; never waits."""
        self._waiting.append(burial)
        self._cue.set()

    def stop(self, deadline: Deadline) -> bool:
        """Write what waits, as far as the deadline allows."""
        while self._waiting and not deadline.passed():
            self._cue.set()
            self._written.wait(min(IDLE_S, deadline.left_s()))
            self._written.clear()
        self.ask_to_stop()
        self._cue.set()
        return super().stop(deadline) and not self._waiting

    def _round(self, stopping: threading.Event) -> None:
        self._cue.wait(IDLE_S)
        self._cue.clear()
        while self._waiting and not stopping.is_set():
            self._register.bury(self._waiting[0].life, self._waiting[0].strikes)
            self._waiting.popleft()
            self._written.set()
