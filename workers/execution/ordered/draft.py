"""What a desk has decided and the keeper has not written yet."""

from __future__ import annotations

from dataclasses import dataclass, field

from smena.records.held_keys import Changes, Hold, Message, Parked
from workers.execution.ordered.item import Item
from workers.execution.pending import Pending


@dataclass(slots=True)
class Draft:
    """What the keeper is to write for a desk."""

    holds: list[tuple[Item, Hold]] = field(default_factory=list)
    behind: list[tuple[Item, Message]] = field(default_factory=list)
    over: list[Parked] = field(default_factory=list)
    deaths: list[tuple[Item, Pending]] = field(default_factory=list)
    looks: list[str] = field(default_factory=list)
    handed_over: dict[str, Message] = field(default_factory=dict)
    """The first job of each key that the next owner is to go on with."""

    def __bool__(self) -> bool:
        return bool(self.holds or self.behind or self.handed_over or self.over or self.deaths or self.looks)

    def changes(self) -> Changes:
        """Return it as the tables take it."""
        return Changes(
            [hold for _, hold in self.holds],
            [message for _, message in self.behind],
            self.over,
            [(pending.attempt(), pending.stored()) for _, pending in self.deaths],
            self.looks,
            list(self.handed_over.values()),
        )

    def then(self, later: Draft) -> Draft:
        """Return both as one to be written, this first."""
        return Draft(
            [*self.holds, *later.holds],
            [*self.behind, *later.behind],
            [*self.over, *later.over],
            [*self.deaths, *later.deaths],
            [*self.looks, *later.looks],
            later.handed_over | self.handed_over,
        )
