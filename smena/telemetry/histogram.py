"""Count durations in fixed buckets, so that figures of any processes add up.

Buckets are the same everywhere, for ever: four to an octave from 0.1 ms to 6,711 s, and one for what
is longer. A percentile read from them is off by at most 10 % of its value (half a bucket; buckets are
19 % wide). Prometheus is given one bucket an octave.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

STEPS_PER_OCTAVE: Final = 4
OCTAVES: Final = 26
SHORTEST_S: Final = 0.0001

BOUNDS_S: Final[tuple[float, ...]] = tuple(
    SHORTEST_S * 2.0 ** (step / STEPS_PER_OCTAVE) for step in range(OCTAVES * STEPS_PER_OCTAVE + 1)
)
"""Upper bounds, inclusive; a last bucket without bound follows."""

BUCKETS: Final = len(BOUNDS_S) + 1


def percentile_s(counts: Sequence[int], share: float) -> float | None:
    """Return the duration below which that share of the counts lies, or None if there are none.

    Within the bucket it is interpolated. What lies in the last bucket reads as that bucket's lower bound.
    """
    total = sum(counts)
    if not total:
        return None
    rank, below = share * total, 0
    for index, count in enumerate(counts):
        if count and below + count >= rank:
            return _within(index, (rank - below) / count)
        below += count
    return BOUNDS_S[-1]


def _within(index: int, share: float) -> float:
    if index >= len(BOUNDS_S):
        return BOUNDS_S[-1]
    low = BOUNDS_S[index - 1] if index else 0.0
    return low + (BOUNDS_S[index] - low) * min(max(share, 0.0), 1.0)


def octaves(counts: Sequence[int]) -> list[tuple[str, float]]:
    """Return Prometheus buckets: upper bound as text, and how many lie at or below it."""
    below, buckets = 0, []
    for index, count in enumerate(counts[: len(BOUNDS_S)]):
        below += count
        if index % STEPS_PER_OCTAVE == 0:
            buckets.append((f"{BOUNDS_S[index]:g}", float(below)))
    return [*buckets, ("+Inf", float(sum(counts)))]
