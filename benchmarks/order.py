"""Look whether the jobs of each key started in the order of their sending."""

from __future__ import annotations

from benchmarks.peers.smena_ordered import KEYS
from benchmarks.proof import Proof
from benchmarks.running import Stalled


def check(proof: Proof) -> None:
    """Raise `Stalled` if a job was first started after a later one of its key."""
    starts = proof.starts()
    late = sum(0 < other < one for one, other in zip(starts, starts[KEYS:], strict=False))
    if late:
        raise Stalled(f"{late} jobs started after a later one of their key")
