"""Count how often in a row the connection was lost under each item of a batch, from one shard job to the next.

An item that is called again counts on where the last shard job of this process left off, and begins anew once it came
to something. Several processes that take turns with an item spare it as often each, which is still an end; in a row it
would be exact, but it is counted when the database has just been lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Final

MOST_ITEMS: Final = 100_000
"""So many items of a batch are remembered: those that another process went on with are done there, unheard here."""


class ItemLosses:
    """The losses in a row by item, shared by a process's threads."""

    def __init__(self) -> None:
        self._losses: dict[int, int] = {}
        self._changing = Lock()

    def of(self, numbers: Sequence[int]) -> int:
        """Return how often in a row it was lost under that one of the items which knows most of it."""
        return max(self._losses.get(number, 0) for number in numbers) if self._losses else 0

    def add(self, numbers: Sequence[int]) -> None:
        """Count one more for each of the items that were called together."""
        with self._changing:
            for number in numbers:
                self._losses[number] = self._losses.pop(number, 0) + 1
            while len(self._losses) > MOST_ITEMS:
                del self._losses[next(iter(self._losses))]  # the one that was lost longest ago

    def forget(self, numbers: Sequence[int]) -> None:
        """Begin anew with items that came to something else."""
        if not self._losses:
            return
        with self._changing:
            for number in numbers:
                self._losses.pop(number, None)
