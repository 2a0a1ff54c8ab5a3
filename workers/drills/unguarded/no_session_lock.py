"""A scheduler that does not believe the lock of a dead leader's session: it waits until the lease has run out."""

from __future__ import annotations

from unittest.mock import patch

import sqlalchemy as sa

from smena.guarantees.election.advisory_lock import AdvisoryLockElection
from smena.settings import Settings
from workers.process.child import Child
from workers.wiring import scheduler

__all__ = ["run"]

_GONE = "_is_gone"


def run(settings: Settings, child: Child) -> int:
    """Be such a scheduler; it waits for the lock as others do, and then makes nothing of it."""
    is_gone = getattr(AdvisoryLockElection, _GONE)

    def not_believed(election: AdvisoryLockElection, connection: sa.Connection, owner: str, patience_s: float) -> bool:
        is_gone(election, connection, owner, patience_s)
        return False

    with patch.object(AdvisoryLockElection, _GONE, not_believed):
        return scheduler.run(settings, child)
