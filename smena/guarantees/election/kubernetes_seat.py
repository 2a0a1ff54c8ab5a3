"""Elect through a Lease of Kubernetes, by optimistic concurrency: who changes a version that is past is refused.

Times in a Lease are written by other machines and are not believed. A holder has lost its seat when its Lease has not
changed for as long as it says, by the candidate's own monotonic clock; so a candidate that has just begun to look
waits a whole lease for a holder that is dead. The term is `leaseTransitions`, with the row in PostgreSQL as its floor,
for anybody may delete a Lease.
"""

from __future__ import annotations

import os
from typing import Final

from smena.clock import Clock
from smena.errors import Misconfigured, TermLost, Transient
from smena.guarantees.election.contract import Reason, Unseated, lease_of
from smena.guarantees.election.lease_api import Conflict, LeaseApi
from smena.guarantees.election.lease_record import LeaseRecord
from smena.guarantees.election.term_row import TermRow
from smena.store.database import Database

_ANSWER_S: Final = 2.0
_NOTHING: Final = ("", 0, "")


class KubernetesElection:
    """A seat in a Lease; ``identity`` is what `kubectl get lease` shows as its holder, with a random part behind it."""

    def __init__(
        self, api: LeaseApi, database: Database, duty: str, lease_s: float, clock: Clock, *, identity: str, prefix: str
    ) -> None:
        self.lease_name = lease_of(duty)
        self.lease_s = lease_s
        self._api = api
        self._row = TermRow(database, self.lease_name, lease_s)
        self._clock = clock
        self._name = f"{prefix}-{duty}".lower().replace("_", "-")
        self._identity = identity
        self._owner = ""
        self._lease: LeaseRecord | None = None
        """As we hold it; None while we do not."""
        self._seen = _NOTHING
        self._seen_since_s = 0.0

    def campaign(self, patience_s: float) -> int | None:
        """See `Election`."""
        lease = self._api.get(self._name, _ANSWER_S)
        if not self._is_free(lease):
            lease = self._watched(lease, patience_s)
            if not self._is_free(lease):
                return None
        return self._taken(lease)

    def renew(self, within_s: float) -> None:
        """See `Election`."""
        held = self._held()
        try:
            self._lease = self._renewed(held, within_s / 4)  # up to three answers, and the row
            self._row.renew(self._owner, held.term, within_s / 4)
        except TermLost as error:
            self._vacate()
            raise Unseated(reason=Reason.TAKEN, lease=self.lease_name, term=held.term) from error

    def resign(self) -> None:
        """See `Election`."""
        held, owner = self._lease, self._owner
        self._vacate()
        if held is not None:
            self._row.release(owner, held.term)

    def close(self) -> None:
        """See `Election`; nothing stays open between two requests."""
        self._owner, self._lease, self._seen = "", None, _NOTHING

    def check(self) -> None:
        """See `Election`."""
        self._api.check()

    # --- Taking -------------------------------------------------------------------------------------

    def _is_free(self, lease: LeaseRecord | None) -> bool:
        """Say whether nobody holds it, or we do without knowing, or its holder has been silent for its lease."""
        if lease is None or lease.holder in {"", self._owner}:
            return True
        if lease.beat != self._seen:
            self._seen, self._seen_since_s = lease.beat, self._clock.monotonic()
        return self._clock.monotonic() - self._seen_since_s >= max(lease.lease_s, self.lease_s)

    def _watched(self, lease: LeaseRecord | None, patience_s: float) -> LeaseRecord | None:
        """Watch the Lease of another; return it as soon as it is free, else as it was last seen."""
        assert lease is not None  # noqa: S101 - one that is not there is free
        ends_s = self._clock.monotonic() + patience_s
        for later in self._api.changes(lease, patience_s):
            lease = later
            if self._is_free(later) or self._clock.monotonic() >= ends_s:
                break
        return lease

    def _taken(self, lease: LeaseRecord | None) -> int | None:
        self._owner = self._owner or f"{self._identity}_{os.urandom(8).hex()}"
        term = max(self._row.floor(), 0 if lease is None else lease.term) + 1
        now = self._clock.now()
        try:
            if lease is None:
                new = LeaseRecord.new(self._name, self._owner, term, self.lease_s, now)
                self._lease = self._api.create(new, _ANSWER_S)
            else:
                self._lease = self._api.change(lease.taken(self._owner, term, self.lease_s, now), _ANSWER_S)
        except Conflict:
            return None  # another was quicker
        if not self._row.entered(self._owner, term, self._vacate):
            return None
        self._seen = _NOTHING
        return term

    # --- Holding ------------------------------------------------------------------------------------

    def _held(self) -> LeaseRecord:
        if self._lease is None:
            raise Unseated(reason=Reason.TAKEN, lease=self.lease_name)
        return self._lease

    def _renewed(self, held: LeaseRecord, within_s: float) -> LeaseRecord:
        """Renew it; where the version is past, look whether it is ours still (a label, an answer that was lost)."""
        try:
            return self._api.change(held.renewed(self._clock.now()), within_s)
        except Conflict:
            now = self._api.get(self._name, within_s)
        if now is None or (now.holder, now.term) != (self._owner, held.term):
            raise TermLost(lease=self.lease_name, term=held.term)
        try:
            return self._api.change(now.renewed(self._clock.now()), within_s)
        except Conflict as again:
            raise Transient("the Lease changes all the time") from again

    def _vacate(self) -> None:
        """Leave the seat to another; the next try is under another name."""
        held, owner = self._lease, self._owner
        self.close()
        if held is None:
            return
        try:
            now = self._api.get(self._name, _ANSWER_S)
            if now is not None and now.holder == owner:
                self._api.change(now.released(), _ANSWER_S)
        except (Conflict, Transient, Misconfigured):
            return  # it runs out
