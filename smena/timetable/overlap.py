"""Decide whether a tick may fire while the job of an earlier one has not ended.

- ``allow``: it fires.
- ``skip``: it is passed over.
- ``queue``: it waits for that end; at most `QUEUED` wait, what comes then is passed over.
"""

from __future__ import annotations

from typing import Final, Literal

Overlap = Literal["allow", "skip", "queue"]
Fate = Literal["fire", "wait", "skip"]

QUEUED: Final = 10
"""Ticks of one schedule that may wait."""


def fate(overlap: Overlap, *, is_busy: bool, waiting: int) -> Fate:
    """Say what a tick does; ``waiting`` ticks of its schedule wait before it."""
    if overlap == "allow" or not (is_busy or waiting):
        return "fire"
    if overlap == "queue" and waiting < QUEUED:
        return "wait"
    return "skip"
