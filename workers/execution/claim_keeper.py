"""Hold this process's claims: take them, renew their leases from a thread of its own, know which are still ours.

Python code that runs in another thread cannot keep this one from renewing; code that holds the interpreter can, and so
can a frozen process. Then the lease runs out, `HeldClaim.is_ours` says no by the local monotonic clock *before* the
database would give the slice to another, and what is written nevertheless ends at the fence (`sharding/claims.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

import sqlalchemy as sa

from sharding import claims
from sharding.claims import Claim, Wish
from smena.clock import Clock
from smena.lifecycle import Loop
from smena.store.database import Database
from smena.telemetry import events

Take = Callable[[sa.Connection, Wish], Claim | None]

RENEWED_AT: Final = 1 / 3
"""Part of its lease after which a claim is renewed."""

GIVEN_UP_AT: Final = 0.9
"""Part of its lease after which a claim that could not be renewed is nobody's for us."""

LOOKS: Final = 12
"""Looks at the claims in the time of a lease."""


class HeldClaim:
    """A claim and until when it is ours, by this process's monotonic clock."""

    __slots__ = ("_clock", "claim", "is_lost", "renewed_s", "until_s")

    def __init__(self, claim: Claim, asked_s: float, lease_s: float, clock: Clock) -> None:
        self.claim = claim
        self.is_lost = False
        self._clock = clock
        self.renew(asked_s, lease_s)

    def renew(self, asked_s: float, lease_s: float) -> None:
        """Count the lease from when it was asked for: it began later than that."""
        self.renewed_s = asked_s
        self.until_s = asked_s + lease_s * GIVEN_UP_AT

    def is_ours(self) -> bool:
        """Say whether work on it may go on."""
        return not self.is_lost and self._clock.monotonic() < self.until_s


class ClaimKeeper(Loop):
    """The claims of one process and the loop that renews them; a service.

    ``life`` is the process's, random per boot (P32): what its death is held against is found by it.
    """

    def __init__(self, database: Database, life: str, lease_s: float, clock: Clock) -> None:
        super().__init__("claim-keeper", self._round, events.loop_failed)
        self.lease_s = lease_s
        self._database = database
        self._life = life
        self._clock = clock
        self._held: set[HeldClaim] = set()
        self._changing = threading.Lock()

    def take(self, job_id: str, batch: int, epoch: int, items: int, start: int, take: Take) -> HeldClaim | None:
        """Take slices for a shard job, as ``take`` does, and hold them until `drop`; None where none is free."""
        owner = claims.owner(self._life, job_id)
        asked_s = self._clock.monotonic()
        with self._database.transaction() as connection:
            claim = take(connection, Wish(batch, epoch, owner, self.lease_s, items, start))
        if claim is None:
            return None
        held = HeldClaim(claim, asked_s, self.lease_s, self._clock)
        with self._changing:
            self._held.add(held)
        return held

    def drop(self, held: HeldClaim) -> None:
        """Renew it no more: it is finished, or lost."""
        with self._changing:
            self._held.discard(held)

    def _round(self, stopping: threading.Event) -> None:
        now_s = self._clock.monotonic()
        with self._changing:
            due = [held for held in self._held if now_s - held.renewed_s >= self.lease_s * RENEWED_AT]
        if due:
            self._renew(due)
        stopping.wait(min(1.0, self.lease_s / LOOKS))

    def _renew(self, due: Sequence[HeldClaim]) -> None:
        handles = [(piece.id, piece.term) for held in due for piece in held.claim.pieces]
        asked_s = self._clock.monotonic()
        with self._database.transaction() as connection:
            ours = claims.renew(connection, handles, self.lease_s)
        for held in due:
            if ours.issuperset(piece.id for piece in held.claim.pieces):
                held.renew(asked_s, self.lease_s)
            else:
                self._lost(held)

    def _lost(self, held: HeldClaim) -> None:
        """Stop the work on it, unless it was finished while we asked."""
        with self._changing:
            is_held = held in self._held
        held.is_lost = is_held
