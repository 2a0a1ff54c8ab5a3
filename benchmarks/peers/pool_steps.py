"""The CPU steps that are measured; a module of its own, that every system's processes can load."""

from __future__ import annotations

import time
from typing import Final

BURN_S: Final = 0.05
"""Processor time of one CPU job."""


def nothing(number: int) -> int:
    """Return what came: all that is measured is the way there and back."""
    return number


def burn(cpu_s: float) -> int:
    """Compute until this thread has had so much processor time; return how far it came."""
    ends_at, count = time.thread_time() + cpu_s, 0
    while time.thread_time() < ends_at:
        count += 1
    return count
