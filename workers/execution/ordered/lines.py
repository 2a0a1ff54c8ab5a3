"""Say of each key of a partition what may run next. Pure: no clock, no locks, no I/O.

A key is a line: one job runs, the others wait behind it in the order of their arrival. A line that is held has jobs in
rows: then what arrives goes into rows too, behind them, and only the first row may run, when it is due. A held line is
free again when its last row is over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from smena.records.held_keys import Parked, Waiting
from workers.execution.ordered.item import Item

NEVER: Final = float("inf")


class Line:
    """One key. ``due_s`` is when its first row, or what was returned, may run (`NEVER`: not by itself)."""

    __slots__ = ("due_s", "is_held", "is_inherited", "is_looking", "running", "waiting")

    def __init__(self) -> None:
        self.running: Item | None = None
        self.waiting: deque[Item] = deque()
        self.is_held = False
        self.is_looking = False
        """Whether its first row is being read."""
        self.is_inherited = False
        """Whether its first row may have been running in another process."""
        self.due_s = NEVER

    @property
    def is_free(self) -> bool:
        """Say whether nothing is known of the key."""
        return self.running is None and not self.waiting and not self.is_held

    @property
    def is_blocked(self) -> bool:
        """Say whether its first row waits, and for no time."""
        return self.is_held and self.due_s == NEVER and self.running is None and not self.is_looking


class Lines:
    """All keys of a partition of which anything is in hand.

    What is to be written is collected in ``behind`` (jobs for rows) and ``over`` (rows whose job is over).
    """

    def __init__(self) -> None:
        self._lines: dict[str, Line] = {}
        self.behind: list[Item] = []
        self.over: list[Parked] = []
        self.is_closing = False

    # --- what happens to jobs -------------------------------------------------------------------

    def load(self, waiting: Iterable[Waiting], now_s: float) -> None:
        """Take over the keys that were held under a former owner."""
        for each in waiting:
            line = self._lines[each.key] = Line()
            line.is_held = line.is_inherited = True
            line.due_s = NEVER if each.wait_s is None else now_s + each.wait_s

    def arrive(self, item: Item) -> Item | None:
        """Take a job from the queue; return it if it may run."""
        line = self._lines.setdefault(item.key, Line())
        if line.is_held:
            self.behind.append(item)
            return None
        line.waiting.append(item)
        return self._next(line) if len(line.waiting) == 1 else None

    def running(self, key: str) -> Item | None:
        """Return the key's job that runs."""
        line = self._lines.get(key)
        return None if line is None else line.running

    def is_over(self, item: Item) -> Item | None:
        """Know that a job was settled for good; return the one that may run next."""
        line = self._lines.get(item.key)
        if line is None or line.running is not item:
            return None
        line.running = None
        if item.parked is not None:
            self.over.append(item.parked)
            line.is_looking = True
            return None
        return self._next(line, item.key)

    def hold(self, item: Item) -> bool:
        """Know that the key is to wait for this job; it counts as running until `held`. False if it does not run."""
        line = self._lines.get(item.key)
        if line is None or line.running is not item:
            return False
        line.is_held = True
        line.due_s = NEVER
        self.behind += line.waiting
        line.waiting.clear()
        return True

    def held(self, item: Item, due_s: float) -> None:
        """Know that the hold is written; the job runs no more."""
        line = self._lines.get(item.key)
        if line is not None and line.running is item:
            line.running = None
            line.due_s = due_s

    def returned(self, item: Item, due_s: float) -> None:
        """Know that a job was given back as it came; it stays the first of its key."""
        line = self._lines.get(item.key)
        if line is None or line.running is not item:
            return
        line.running = None
        if item.parked is None and not item.comes_again:
            line.waiting.appendleft(item.again())
        line.is_inherited = line.is_inherited or item.parked is not None
        line.due_s = due_s if line.waiting or line.is_held else NEVER
        self._forget_if_free(line, item.key)

    # --- when time passes -------------------------------------------------------------------------

    def due(self, now_s: float) -> tuple[list[str], list[Item]]:
        """Return the held keys whose first row is to be read now, and the returned jobs that may run again."""
        keys: list[str] = []
        items: list[Item] = []
        if self.is_closing:
            return keys, items
        for key, line in self._lines.items():
            if line.due_s > now_s or line.running is not None or line.is_looking:
                continue
            line.due_s = NEVER
            if line.is_held:
                line.is_looking = True
                keys.append(key)
            elif (item := self._next(line)) is not None:
                items.append(item)
        return keys, items

    def next_due_s(self) -> float:
        """Return when `due` has something to say."""
        return min((line.due_s for line in self._lines.values() if line.running is None), default=NEVER)

    def release(self, key: str, due_s: float) -> bool:
        """Know that an operator lets a key go on; say whether it is held here."""
        line = self._lines.get(key)
        if line is None or not line.is_held:
            return False
        if line.running is None and not line.is_looking:
            line.due_s = min(line.due_s, due_s)
        return True

    def found(self, key: str, head: Item | None) -> Item | None:
        """Know a held key's first row, or that there is none: then the key is free. Return what may run."""
        line = self._lines.get(key)
        if line is None:
            return None
        line.is_looking = False
        if head is None:
            line.is_held = line.is_inherited = False
            line.waiting.extend(item for item in self.behind if item.key == key)
            self.behind = [item for item in self.behind if item.key != key]
            return self._next(line, key)
        if self.is_closing:
            return None
        line.is_inherited = False
        line.running = head
        return head

    def is_inherited(self, key: str) -> bool:
        """Say whether the key's first row may have been running in another process."""
        line = self._lines.get(key)
        return line is not None and line.is_inherited

    def look_failed(self, keys: Iterable[str], due_s: float) -> None:
        """Know that the first rows could not be read."""
        for key in keys:
            line = self._lines.get(key)
            if line is not None:
                line.is_looking = False
                line.due_s = due_s

    # --- the whole --------------------------------------------------------------------------------

    def forget_lent(self) -> None:
        """Forget what the broker has again; what runs is still the first of its key until it ends."""
        self.behind.clear()
        for key, line in list(self._lines.items()):
            line.waiting.clear()
            self._forget_if_free(line, key)

    def hand_over(self) -> list[Item]:
        """Give up all that waits for its turn, of each key in its order: the next owner is to go on with it."""
        items: list[Item] = []
        for key, line in list(self._lines.items()):
            items += line.waiting
            line.waiting.clear()
            self._forget_if_free(line, key)
        return items

    def clear(self) -> None:
        """Forget everything."""
        self._lines.clear()
        self.behind.clear()
        self.over.clear()

    def count_running(self) -> int:
        """Return how many jobs run."""
        return sum(line.running is not None for line in self._lines.values())

    def count_waiting(self) -> int:
        """Return how many jobs in hand do not run."""
        return sum(len(line.waiting) for line in self._lines.values()) + len(self.behind)

    def count_held(self) -> int:
        """Return how many keys are held."""
        return sum(line.is_held for line in self._lines.values())

    def count_blocked(self) -> int:
        """Return how many keys are held and do not go on by themselves."""
        return sum(line.is_blocked for line in self._lines.values())

    def crowded(self, most: int) -> dict[str, int]:
        """Return the keys with at least so many jobs in hand that wait, and how many."""
        return {key: len(line.waiting) for key, line in self._lines.items() if len(line.waiting) >= most}

    def _next(self, line: Line, key: str | None = None) -> Item | None:
        if line.running is None and line.waiting and not self.is_closing and not line.is_held:
            line.running = line.waiting.popleft()
            return line.running
        if key is not None:
            self._forget_if_free(line, key)
        return None

    def _forget_if_free(self, line: Line, key: str) -> None:
        if line.is_free:
            del self._lines[key]
