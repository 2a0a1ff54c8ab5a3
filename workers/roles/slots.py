"""Say which ordering keys of the outbox are this relay's, and hand them over when no row of theirs is under way.

The tenant of the partitions of the group `outbox`: between its service, which gives and takes slots, and the relay,
whose flights carry their rows.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from smena.outbox.claims import Row
from smena.store.terms import Term

GROUP: Final = "outbox"


class Slots:
    """One relay's share of the ordering keys; safe from all threads.

    ``fence_of`` says under which term a slot is ours at this moment; ``knock`` wakes the relay.
    """

    def __init__(self, fence_of: Callable[[int], Term | None], knock: Callable[[], None]) -> None:
        self._fence_of = fence_of
        self._knock = knock
        self._ours: set[int] = set()
        self._leaving: dict[int, Callable[[], None]] = {}
        self._under_way: Counter[int] = Counter()
        self._changing = threading.Lock()

    def begin(self, partition: int, term: int) -> None:  # noqa: ARG002 - the term is asked for at each claim
        """Claim rows of this slot from now on."""
        with self._changing:
            self._ours.add(partition)
        self._knock()

    def give_up(self, partition: int, done: Callable[[], None]) -> None:
        """Claim no more of it; ``done`` once what is under way has landed."""
        with self._changing:
            self._ours.discard(partition)
            self._leaving[partition] = done
        self._let_go()

    def lost(self, partition: int) -> None:
        """Claim no more of it; what is under way is another's to send again."""
        with self._changing:
            self._ours.discard(partition)
            self._leaving.pop(partition, None)

    def held(self) -> dict[int, Term]:
        """Return the slots whose rows may be claimed, each with its term."""
        with self._changing:
            ours = sorted(self._ours)
        terms = {slot: self._fence_of(slot) for slot in ours}
        return {slot: term for slot, term in terms.items() if term is not None}

    def board(self, rows: Sequence[Row], claimed_under: dict[int, Term]) -> tuple[list[Row], list[Row]]:
        """Part claimed rows into those that may be sent and those that are another's by now; count the first.

        Asked for right before the publish: a relay that was frozen since its claim sends nothing out of turn.
        """
        still = self.held()
        with self._changing:
            ours = [row for row in rows if row.slot is None or still.get(row.slot) == claimed_under.get(row.slot)]
            self._under_way.update(row.slot for row in ours if row.slot is not None)
        stays = {row.seq for row in ours}
        return ours, [row for row in rows if row.seq not in stays]

    def land(self, rows: Sequence[Row]) -> None:
        """Count rows whose end is written down."""
        with self._changing:
            self._under_way.subtract(row.slot for row in rows if row.slot is not None)
        self._let_go()

    def _let_go(self) -> None:
        with self._changing:
            free = [slot for slot in self._leaving if self._under_way[slot] <= 0]
            calls = [self._leaving.pop(slot) for slot in free]
        for done in calls:
            done()
