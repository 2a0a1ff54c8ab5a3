"""Hold one job that ran in a process when that died, and one that was begun after it had come back.

Values only: the supervisor, which may have no database, and the pipe to its workers speak of them too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

Why = Literal["suspected", "ended", "fault", "hard_limit", "held_interpreter", "lost"]
"""Why a job is struck. ``suspected``: it ran there. ``ended``: it had just ended there, and may have left behind what
the process died of. ``fault``: the fatal signal came in its thread. ``hard_limit`` and ``held_interpreter``: the
supervisor killed the process because of it. ``lost``: it had been started there, and the process went with its
supervisor."""

CONVICTING: Final = frozenset[Why]({"hard_limit", "held_interpreter"})
"""Those that end the attempt: it ran out of time, and must not run again in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """A suspicion, never an attempt. ``life`` is the process that died; ``beside`` counts all that ran there, this one
    included, or all that had just ended; ``how`` is the signal, or the exit code in words. The times are the
    database's.
    """

    job_id: str
    attempt: int
    life: str
    actor: str
    why: Why = "suspected"
    beside: int = 1
    how: str = "unknown"
    peak_mib: int | None = None
    ran_s: float | None = None
    worker: str = ""
    host: str = ""
    lines: str | None = None
    stack: str | None = None
    struck_at: datetime | None = None
    cleared_at: datetime | None = None

    def told(self) -> dict[str, Any]:
        """Return what its event says."""
        return {
            "job": self.job_id,
            "actor": self.actor,
            "attempt": self.attempt,
            "why": self.why,
            "how": self.how,
            "beside": self.beside,
            "peak_mib": self.peak_mib,
            "ran_s": self.ran_s,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A redelivered job that runs, or ran when its process was lost."""

    job_id: str
    attempt: int
    life: str
    actor: str
    worker: str
    host: str
    started_at: datetime | None = None
