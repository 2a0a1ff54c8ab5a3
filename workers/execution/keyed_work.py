"""Work the items of one claim of a batch by partition: one at a time, in their order, and none behind a held one.

An item that is to be tried again, and what is left of its key, become a slice of their own that waits; the other keys
go on. The attempt of the claim's piece is that of its first item.
"""

from __future__ import annotations

from bisect import bisect_left

from sharding.claims import Again, Piece
from sharding.keyed_claims import MOST_HELD, Block
from sharding.reading import UnreadableItem
from workers.execution.slice_work import CRASHED, SliceWork, kills
from workers.middleware.outcome import Dead, Done, Outcome, Retry, Returned, Snooze


class KeyedWork(SliceWork):
    """The work on one claim of a partition by one shard job."""

    def _readable(self, piece: Piece, numbers: list[int]) -> list[int]:  # noqa: ARG002 - the base's signature
        """Leave them all: one that cannot be read dies in its turn."""
        return numbers

    def _run_each(self, piece: Piece, numbers: list[int]) -> None:
        passed = -1
        for number in numbers:
            if number <= passed:
                continue  # it waits for an item before it, or is blocked by one
            own = piece if number == piece.first else piece._replace(attempt=1)
            if not self._goes_on() or len(self.remains.again) >= MOST_HELD:
                self.remains.again.append(Again(number, piece.last, own.attempt))
                return
            outcome = self._outcome(own, number)
            if type(outcome) is Done:
                self.remains.done += 1
            else:
                passed = self._stopped(own, number, outcome)

    def _outcome(self, piece: Piece, number: int) -> Outcome:
        item = piece.items[number - piece.first]
        if isinstance(item, UnreadableItem):
            return Dead(item.code, item)
        if kills(piece):
            return Dead(CRASHED, None)
        finish = self._marking(piece, (number,)) if self._recipe.commits_items else None
        return self._call(piece, (number,), item, finish)

    def _stopped(self, piece: Piece, number: int, outcome: Outcome) -> int:
        """Say how an item that is not done goes on; return the last one that is not to be worked now."""
        remains, end = self.remains, piece.ends[bisect_left(piece.ends, number)]
        ours = min(end, piece.last)
        match outcome:
            case Retry(delay_s, _):
                remains.again.append(Again(number, ours, piece.attempt + 1, delay_s))
                return ours
            case Snooze(delay_s, _):
                remains.again.append(Again(number, ours, piece.attempt, delay_s))
                return ours
            case Returned():
                remains.again.append(Again(number, piece.last, piece.attempt))
                remains.pause = outcome
                return piece.last
            case Dead(reason, error):
                self._bury(piece, number, reason, error)
                if self._recipe.on_dead != "skip":
                    remains.blocks.append(Block(number, ours, end))
                elif number < ours:  # once this death is written: it must not be forgotten after they took effect
                    remains.again.append(Again(number + 1, ours, 1))
                return ours
            case _:
                raise ValueError(f"an item cannot come to {outcome!r}")
