"""Say how long to wait before trying again.

Exponential backoff with *full jitter*: the wait before attempt ``n + 1`` is uniform between zero and
``min(cap, base * 2 ** (n - 1))``. Full jitter spreads a crowd that failed together best of the known
variants (Marc Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

_MAX_DOUBLINGS = 64
"""Past this the ceiling has long been reached; keeps `2 ** n` small for any attempt number."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """The bounds of the wait, in seconds.

    ``floor_s`` lifts every wait, so that a jitter of zero is still a pause.
    """

    base_s: float = 1.0
    cap_s: float = 300.0
    floor_s: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.floor_s <= self.cap_s or self.base_s <= 0:
            raise ValueError(f"need 0 <= floor_s <= cap_s and base_s > 0, got {self}")

    def ceiling_s(self, failures: int) -> float:
        """Return the longest wait after that many failures (1 or more)."""
        doublings = min(max(failures, 1) - 1, _MAX_DOUBLINGS)
        return float(min(self.cap_s, self.base_s * 2.0**doublings))

    def wait_s(self, failures: int, draw: Callable[[], float] = random.random) -> float:
        """Return a wait after that many failures; ``draw`` gives a number in [0, 1)."""
        return max(self.floor_s, draw() * self.ceiling_s(failures))


@dataclass(slots=True)
class Pause:
    """A growing wait for a loop that reconnects: `next_s` after each failure, `reset` on success."""

    backoff: Backoff
    failures: int = field(default=0, init=False)

    def next_s(self) -> float:
        """Count one more failure and return the wait that follows it."""
        self.failures += 1
        return self.backoff.wait_s(self.failures)

    def reset(self) -> None:
        """Forget the failures."""
        self.failures = 0
