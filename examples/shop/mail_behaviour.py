"""Decide how the mail provider answers a request: a provider's moods, drawn from a seed.

The draw depends on the seed, the key and how often that key has been asked, not on the order of
requests: a run with the same keys meets the same answers, however the fleet is scheduled.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from enum import Enum

_SCALE = 2**32


class Mood(Enum):
    """What the provider does with one request."""

    PROMPT = "prompt"
    SLOW = "slow"
    """Takes the mail, but answers late."""
    CUT = "cut"
    """Takes the mail, then cuts the connection instead of answering."""
    BUSY = "busy"
    """Answers 429 with Retry-After; the mail is not taken."""
    DOWN = "down"
    """Answers 503; the mail is not taken."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How often each mood comes, as shares of all requests; the rest are prompt."""

    seed: int = 17
    busy: float = 0.05
    down: float = 0.05
    slow: float = 0.03
    cut: float = 0.03
    slow_s: float = 0.3
    retry_after_s: int = 1

    def mood(self, key: str, nth: int) -> Mood:
        """Return the mood for the nth request with that key (from 1)."""
        drawn = zlib.crc32(f"{self.seed}:{nth}:{key}".encode()) / _SCALE
        shares = {Mood.BUSY: self.busy, Mood.DOWN: self.down, Mood.SLOW: self.slow, Mood.CUT: self.cut}
        for mood, share in shares.items():
            if drawn < share:
                return mood
            drawn -= share
        return Mood.PROMPT
