"""Name a job for whose sake a child is killed, so that nobody beside it is blamed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Why = Literal["hard_limit", "held_interpreter"]
"""``hard_limit``: it went on past its soft limit and the grace after it. ``held_interpreter``: its code let no other
thread of the child run, the link's included."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """The job that a child is to die of, and why; the supervisor knows it before it kills."""

    job_id: str
    actor: str
    attempt: int
    slot: int
    why: Why
