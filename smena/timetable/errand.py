"""Come once and never again: the rule of work that is done one time in a fleet's life."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

AT: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The planned time of every errand: by it, its tick's row is unique for ever."""


class Errand:
    """Work under a key that is done once; a `When` without any instant to come."""

    def __init__(self, key: str) -> None:
        self.key = key

    @property
    def spec(self) -> str:
        """Return the rule as text."""
        return f"once {self.key}"

    @property
    def name(self) -> str:
        """Return what its ticks are filed under; no schedule has such a name."""
        return f"once:{self.key}"

    def __repr__(self) -> str:
        return f"Errand({self.key!r})"

    def after(self, instant: datetime) -> None:
        """Return None: the clock does not bring it."""
