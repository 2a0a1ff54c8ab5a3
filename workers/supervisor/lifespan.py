"""Say how much a child of a role may do, hold and live before another relieves it.

Jobs and age count against a share of the limit between 80 and 100 %, drawn for each child when it is started, so that
children that began together do not end together. Memory is what it is.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

LEAST_SHARE = 0.8


def draw_share() -> float:
    """Return a child's share of the limits."""
    return random.uniform(LEAST_SHARE, 1.0)  # noqa: S311  (no secret)


@dataclass(frozen=True, slots=True)
class Lifespan:
    """The limits; None is without end."""

    jobs: int | None = None
    memory_mib: int | None = None
    age_s: float | None = None

    def reached(self, *, jobs: int, memory_mib: int, age_s: float, share: float) -> str:
        """Return which limit a child with these figures has reached, in words; empty for none."""
        if self.jobs is not None and jobs >= self.jobs * share:
            return f"{jobs} jobs done"
        if self.memory_mib is not None and memory_mib >= self.memory_mib:
            return f"{memory_mib} MiB held"
        if self.age_s is not None and age_s >= self.age_s * share:
            return f"{age_s:.0f} s old"
        return ""
