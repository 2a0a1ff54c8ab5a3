"""A number that a drill measured, and the bound that judges it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Bar:
    """One measure. ``at_most`` says on which side of the bound it must be."""

    name: str
    value: float
    bound: float
    at_most: bool = True

    @property
    def holds(self) -> bool:
        """Say whether the measure is within its bound."""
        return self.value <= self.bound if self.at_most else self.value >= self.bound

    def facts(self) -> dict[str, object]:
        """Return it for programs."""
        return {"name": self.name, "value": self.value, "bound": self.bound, "holds": self.holds}

    def __str__(self) -> str:
        """Say measure and bound."""
        sign = "<=" if self.at_most else ">="
        return f"{self.name} {self.value:g} ({sign} {self.bound:g})"


def windows(at: Sequence[float], since: float, until: float, size: float, step: float = 0.1) -> list[int]:
    """Count the moments ``at`` (in order) in every window of that size that begins a ``step`` after the one before."""
    starts = [since + n * step for n in range(int((until - size - since) / step) + 1)]
    return [bisect_left(at, start + size) - bisect_left(at, start) for start in starts or [since]]


def worst_of_hundred(values: list[float]) -> float:
    """Return the 99th percentile; of fewer than a hundred values that is the worst."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
