"""One system in a race: what it is run with, its rounds so far, and why it is out, if it is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from benchmarks.ground import Ground
from benchmarks.running import Stalled
from benchmarks.systems import System

R = TypeVar("R")
T = TypeVar("T")

_TAIL = 1500


@dataclass
class Entrant(Generic[R]):
    """A system and its results. One that stalls is out, with the tail of its log, and stops nobody else."""

    system: System
    ground: Ground
    jobs: int
    prefetch: int | None = None
    rounds: list[R] = field(default_factory=list)
    killed_at: int | None = None
    """Jobs that had taken effect when its process was killed; None: not tried, or the kill lost something."""
    stalled: str | None = None

    def attempt(self, what: str, play: Callable[[], T]) -> T | None:
        """Do one thing unless it is out already; return None when it stalls."""
        if self.stalled is not None:
            return None
        start = time.monotonic()
        try:
            result = play()
        except (Stalled, subprocess.SubprocessError) as error:
            self.stalled = f"{what}: {error}\n{self._tail()}"
            print(f"{what:<16}{self.system.name:<18}STALLED {self.stalled}", file=sys.stderr, flush=True)
            return None
        took_s = time.monotonic() - start
        print(f"{what:<16}{self.system.name:<18}{said(result):<24}{took_s:6.1f} s", file=sys.stderr, flush=True)
        return result

    def choose_prefetch(self, trial: Callable[[int | None], float]) -> float | None:
        """Take the prefetch with the greatest score; return that."""
        scores: dict[int | None, float] = {}
        for prefetch in self.system.prefetches or (None,):
            score = self.attempt(f"trial {prefetch or ''}", lambda: trial(prefetch))  # noqa: B023 (called at once)
            if score is not None:
                scores[prefetch] = score
        if not scores:
            return None
        self.prefetch = max(scores, key=lambda prefetch: scores[prefetch])
        return scores[self.prefetch]

    def play_round(self, number: int, play: Callable[[], R]) -> None:
        """Play a round and keep its result."""
        result = self.attempt(f"round {number + 1}", play)
        if result is not None:
            self.rounds.append(result)

    def options(self) -> dict[str, object]:
        """Say how it was run."""
        command = [os.path.basename(self.system.command[0]), *self.system.command[1:]]  # noqa: PTH119 (a name)
        return {"command": " ".join(command), "prefetch": self.prefetch, "environment": self.system.environment}

    def _tail(self) -> str:
        log = self.ground.log(self.system)
        return log.read_text(errors="replace")[-_TAIL:].strip() if log.exists() else ""


def entrants(systems: Sequence[System], ground: Ground, jobs: int) -> list[Entrant[R]]:
    """Return all systems at the start."""
    return [Entrant(system, ground, jobs) for system in systems]


def said(result: object) -> str:
    """Say a result in few words."""
    if isinstance(result, float):
        return f"{result:,.2f}" if result < 100 else f"{result:,.0f}"
    return str(result)
