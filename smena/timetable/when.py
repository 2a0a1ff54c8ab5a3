"""Give the instants of a schedule."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Protocol


class When(Protocol):
    """A rule for instants. Two rules with one ``spec`` give the same instants, in every process."""

    @property
    def spec(self) -> str:
        """Return the rule as text; `read` makes the rule of it again."""

    def after(self, instant: datetime) -> datetime | None:
        """Return the first instant later than an aware one, in UTC and whole seconds; None when none comes."""


def between(when: When, start: datetime, end: datetime) -> Iterator[datetime]:
    """Give the instants later than ``start`` and not later than ``end``, in order."""
    instant = when.after(start)
    while instant is not None and instant <= end:
        yield instant
        instant = when.after(instant)
