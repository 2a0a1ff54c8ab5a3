"""A leader of the drill's own, that goes on writing under a term it has lost, and the judge of what was let through.

Each write is a row with its term, fenced as every leader's writes are. The writer believes nothing but the fence: it
writes under the term of its last leadership until it is refused, whether or not it still thinks that it leads.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import Final

import sqlalchemy as sa

from smena.clock import SYSTEM
from smena.errors import DatabaseLost, TermLost
from smena.guarantees.election.advisory_lock import AdvisoryLockElection
from smena.guarantees.election.leadership import Leadership
from smena.guarantees.election.tenure import Tenure
from smena.guarantees.election.timing import Timing
from smena.lifecycle import Loop
from smena.settings import load
from smena.store import terms
from smena.store.database import Database
from smena.telemetry import events
from workers.drills.ground import Ground

DUTY: Final = "drill"
NAME: Final = "smena-drill"
LEASE_S: Final = 4.0
PERIOD_S: Final = 0.5
_PAUSE_S: Final = 0.01
_TABLE: Final = sa.text("""
CREATE TABLE IF NOT EXISTS drill.reigns (
    run text NOT NULL, term bigint NOT NULL, who text NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp()
)
""")
_WRITE: Final = sa.text("INSERT INTO drill.reigns (run, term, who) VALUES (:run, :term, :who)")
STALE: Final = """
SELECT count(*) FROM drill.reigns AS stale WHERE run = %(run)s AND EXISTS (
    SELECT FROM drill.reigns AS newer WHERE newer.run = stale.run AND newer.term > stale.term AND newer.at < stale.at
)
"""
SHRUNK: Final = """
SELECT count(*) FROM (
    SELECT term < lag(term) OVER (ORDER BY at) AS is_less FROM drill.reigns WHERE run = %(run)s
) AS steps WHERE is_less
"""

_STANDING_BY: Final = """
SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND NOT granted AND datname = current_database() AND starts_with(application_name, %(who)s)
"""


class Reign(Loop):
    """A candidate of this process that writes; ``election_url`` is where it stands, which may be cut off."""

    def __init__(self, ground: Ground, who: str, database_url: str, election_url: str, ends: ExitStack) -> None:
        super().__init__(f"reign-{who}", self._round, events.loop_failed)
        self.who = who
        self.refused = 0
        self.stale = 0
        """How many writes it has tried under a leadership that it knows to be over, refused or not."""
        self._run = ground.run
        self._database = _opened(ground, database_url, ends)
        election = AdvisoryLockElection(_opened(ground, election_url, ends), DUTY, LEASE_S, SYSTEM)
        self.leadership = Leadership(election, Timing(LEASE_S, PERIOD_S), SYSTEM)
        self._tenure: Tenure | None = None

    def _round(self, stopping: threading.Event) -> None:
        self._tenure = self.leadership.tenure or self._tenure
        if self._tenure is not None:
            self._write(self._tenure)
            self.stale += self.leadership.tenure is not self._tenure
        stopping.wait(_PAUSE_S)

    def _write(self, tenure: Tenure) -> None:
        try:
            with self._database.transaction() as connection:
                connection.execute(_WRITE, {"run": self._run, "term": tenure.number, "who": self.who})
                terms.fence(connection, tenure.term)
        except TermLost:
            self.refused += 1
        except DatabaseLost:
            return  # the fault may be that it is gone


def standing_by(ground: Ground, who: str) -> int:
    """Return how many candidates of such a name wait for a leader in PostgreSQL to be gone, at this moment."""
    return int(ground.sight.rows(_STANDING_BY, who=who)[0][0])


def prepare(ground: Ground, database_url: str) -> None:
    """Make the table that reigns write to."""
    with ExitStack() as ends, _opened(ground, database_url, ends).transaction() as connection:
        connection.execute(_TABLE)


def _opened(ground: Ground, url: str, ends: ExitStack) -> Database:
    environ = {**ground.environ, "SMENA_DATABASE_URL": url, "SMENA_DATABASE_CONNECT_TIMEOUT_S": "2"}
    database = Database(load(env=environ).database, NAME, 2)
    ends.callback(database.close)
    return database
