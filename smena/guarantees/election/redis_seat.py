"""Elect through Redis: an owner's token that runs out, and a counter of terms.

Redis may forget everything (a restart, FLUSHALL, a failover to a replica that lags): then two may think that they
lead for a part of a lease. Terms grow all the same, for the row in PostgreSQL is their floor, and the fence compares
with that row. Every change of the seat is a script that looks at the owner first, so nobody renews or gives up what
has become another's.

Who waits for the seat waits on a list that a resigning leader rings; a leader that died is missed when its token has
run out by the server's clock, or when the seat has not been renewed for a lease by the candidate's own clock.
"""

from __future__ import annotations

from typing import Any, Final

import redis

from smena.clock import Clock
from smena.errors import CacheLost, TermLost
from smena.guarantees.election.contract import Reason, Unseated, lease_of, new_owner
from smena.guarantees.election.term_row import TermRow
from smena.store.cache import Cache
from smena.store.database import Database
from smena.store.faults import translated

_ANSWER_S: Final = 2.0
_NOBODY: Final = (b"", b"")


class RedisElection:
    """A seat in Redis; see the module's docstring."""

    def __init__(self, cache: Cache, database: Database, duty: str, lease_s: float, clock: Clock) -> None:
        self.lease_name = lease_of(duty)
        self.lease_s = lease_s
        self._cache = cache
        self._row = TermRow(database, self.lease_name, lease_s)
        self._clock = clock
        # One slot of a cluster holds them all: a script may touch no other.
        self._seat, self._counter, self._bell = (
            f"smena:{{{self.lease_name}}}:{part}" for part in ("seat", "term", "bell")
        )
        self._waiting: redis.Redis | None = None
        self._owner = ""
        self._number = 0
        self._seen: tuple[bytes, bytes] = _NOBODY
        self._seen_since_s = 0.0

    def check(self) -> None:
        """See `Election`; whether the server answers is found out later."""

    def campaign(self, patience_s: float) -> int | None:
        """See `Election`."""
        number = self._taken()
        if number is None and self._rings(patience_s):
            number = self._taken()
        return number

    def renew(self, within_s: float) -> None:
        """See `Election`; the cache's own limits are shorter than any lease."""
        if not self._cache.run("seat_renew", [self._seat], [self._owner, self._lease_ms]):
            raise Unseated(reason=Reason.TAKEN, lease=self.lease_name, term=self._number)
        try:
            self._row.renew(self._owner, self._number, within_s / 2)
        except TermLost as error:
            self._vacate()
            raise Unseated(reason=Reason.TAKEN, lease=self.lease_name, term=self._number) from error

    def resign(self) -> None:
        """See `Election`."""
        owner, number = self._owner, self._number
        self._vacate()
        if number:
            self._row.release(owner, number)

    def close(self) -> None:
        """See `Election`."""
        self._owner, self._number, self._seen = "", 0, _NOBODY
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.close()
            waiting.connection_pool.disconnect()

    @property
    def _lease_ms(self) -> int:
        return round(self.lease_s * 1000)

    def _taken(self) -> int | None:
        """Take the seat where that can be done, and enter the term; give it up again where it does not count."""
        self._owner = self._owner or new_owner()
        keys = [self._seat, self._counter, self._bell]
        stale = self._seen if self._is_stale() else _NOBODY
        floor = self._row.floor()
        answer: list[Any] = self._cache.run("seat_take", keys, [self._owner, self._lease_ms, floor, *stale])
        number, owner, beat = int(answer[0]), bytes(answer[1]), bytes(answer[2])
        if number == 0:
            self._note((owner, beat))
            return None
        if not self._row.entered(self._owner, number, self._vacate):
            return None
        self._number, self._seen = number, _NOBODY
        return number

    def _vacate(self) -> None:
        """Leave the seat to another; the next try is under another name."""
        owner, self._owner, self._number = self._owner, "", 0
        try:
            if owner:
                self._cache.run("seat_resign", [self._seat, self._bell], [owner])
        except CacheLost:
            return  # its token runs out

    def _is_stale(self) -> bool:
        return self._seen != _NOBODY and self._clock.monotonic() - self._seen_since_s >= self.lease_s

    def _note(self, seen: tuple[bytes, bytes]) -> None:
        if seen != self._seen:
            self._seen, self._seen_since_s = seen, self._clock.monotonic()

    def _rings(self, patience_s: float) -> bool:
        """Wait for a leader that resigns."""
        with translated():
            if self._waiting is None:
                self._waiting = self._cache.alone(patience_s + _ANSWER_S)
            return self._waiting.blpop([self._bell], timeout=patience_s) is not None
