"""See a run from the database: what runs and where, and what has ended.

Read by the drill to know what its fault hit, and to wait. It connects anew when its connection was lost, for some
drills take the database away.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, LiteralString

import psycopg

RUNNING: Final = """
SELECT objid::int AS number, classid::int AS process
FROM pg_locks
WHERE locktype = 'advisory' AND objsubid = 2 AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND objid::bigint IN (SELECT number FROM drill.jobs WHERE run = %(run)s)
"""
_STANDING: Final = """
SELECT (SELECT count(*) FROM drill.jobs WHERE run = %(run)s AND accepted_at IS NOT NULL),
       (SELECT count(DISTINCT number) FROM drill.effects WHERE run = %(run)s),
       (SELECT count(DISTINCT job_id) FROM smena.dead_letters JOIN drill.jobs USING (job_id) WHERE run = %(run)s),
       (SELECT count(*) FROM smena.outbox JOIN drill.jobs ON job_id = id WHERE run = %(run)s AND state <> 'sent')
"""
LEASED: Final = """
SELECT substr(name, 7)::int AS number, split_part(owner, '-', 1)::int AS process
FROM smena.leases
WHERE name LIKE 'drill-%%' AND substr(name, 7)::int IN (
    SELECT number FROM drill.jobs WHERE run = %(run)s
    EXCEPT SELECT number FROM drill.effects WHERE run = %(run)s
)
"""
STARTED: Final = """
SELECT DISTINCT ON (number) number, process
FROM drill.starts
WHERE run = %(run)s
  AND NOT EXISTS (SELECT FROM drill.effects WHERE effects.run = %(run)s AND effects.number = starts.number)
ORDER BY number, at DESC
"""
_BACK: Final = f"""
SELECT count(*)
FROM unnest(%(numbers)s::int[]) AS struck (number)
WHERE EXISTS (SELECT FROM drill.effects WHERE run = %(run)s AND effects.number = struck.number)
   OR EXISTS (SELECT FROM ({RUNNING}) AS now WHERE now.number = struck.number AND now.process <> ALL (%(dead)s::int[]))
"""  # noqa: S608 - constants
_ENDED: Final = """
SELECT (extract(epoch FROM at) + duration_ms / 1000.0)::float8 AS ended
FROM drill.effects JOIN drill.jobs USING (number) WHERE effects.run = %(run)s ORDER BY ended
"""
_PROCESSES: Final = """
SELECT DISTINCT process FROM drill.effects WHERE run = %(run)s AND number = ANY (%(numbers)s)
"""
_ENDED_OF: Final = """
SELECT count(DISTINCT number) FROM drill.effects WHERE run = %(run)s AND number = ANY (%(numbers)s)
"""
_LETTERS: Final = """
SELECT jobs.actor, reason FROM smena.dead_letters JOIN drill.jobs USING (job_id) WHERE run = %(run)s
"""
_BEGUN: Final = """
SELECT process FROM drill.starts JOIN drill.jobs USING (number)
WHERE jobs.run = %(run)s AND actor = %(actor)s ORDER BY at
"""
_NOW: Final = "SELECT extract(epoch FROM clock_timestamp())::float8"


class Sight:
    """What the database shows of one run."""

    def __init__(self, url: str, run: str) -> None:
        self._url = url
        self.run = run
        self._connection: psycopg.Connection[Any] | None = None

    def rows(self, query: LiteralString, **values: object) -> list[tuple[Any, ...]]:
        """Return what a query gives (``run`` is given to it); raises psycopg's errors, and connects anew after them."""
        try:
            return self._open().execute(query, {"run": self.run, **values}).fetchall()
        except psycopg.Error:
            self.close()
            raise

    def running(self, process: int | None = None) -> dict[int, int]:
        """Return the jobs whose transaction is open: number to process; of one process or of all."""
        found = dict(self.rows(RUNNING))
        return {number: pid for number, pid in found.items() if process in (None, pid)}

    def standing(self) -> tuple[int, int, int, int]:
        """Return how many jobs were accepted, took effect, are dead letters, and wait in the outbox."""
        [(accepted, effects, dead, unsent)] = self.rows(_STANDING)
        return accepted, effects, dead, unsent

    def are_back(self, numbers: Collection[int], dead: Collection[int]) -> bool:
        """Say whether each of these jobs took effect, or runs in a process that is not among the dead."""
        [(back,)] = self.rows(_BACK, numbers=list(numbers), dead=list(dead))
        return bool(back == len(numbers))

    def now(self) -> float:
        """Return the database's clock, in Unix seconds."""
        [(now,)] = self.rows(_NOW)
        return float(now)

    def leased(self, process: int | None = None) -> dict[int, int]:
        """Return the jobs that run under a lease of their own: number to process; of one process or of all."""
        found = dict(self.rows(LEASED))
        return {number: pid for number, pid in found.items() if process in (None, pid)}

    def started(self, process: int | None = None) -> dict[int, int]:
        """Return the jobs without a transaction that have begun and not ended: number to process that began last."""
        found = dict(self.rows(STARTED))
        return {number: pid for number, pid in found.items() if process in (None, pid)}

    def letters(self) -> dict[str, str]:
        """Return the dead letters of the run: actor to reason."""
        return dict(self.rows(_LETTERS))

    def begun(self, actor: str) -> list[int]:
        """Return the processes in which jobs of this actor began, as often as they did, the last one last."""
        return [int(process) for (process,) in self.rows(_BEGUN, actor=actor)]

    def ended_at(self) -> list[float]:
        """Return when each effect ended, in Unix seconds of the database's clock, in order."""
        return [float(at) for (at,) in self.rows(_ENDED)]

    def done_by(self, numbers: Collection[int]) -> set[int]:
        """Return the processes in which these jobs took effect."""
        return {int(process) for (process,) in self.rows(_PROCESSES, numbers=list(numbers))}

    def unended(self, numbers: Collection[int]) -> int:
        """Return how many of these jobs did not take effect yet."""
        [(ended,)] = self.rows(_ENDED_OF, numbers=list(numbers))
        return len(numbers) - int(ended)

    def have_ended(self, numbers: Collection[int]) -> bool:
        """Say whether each of these jobs took effect."""
        return self.unended(numbers) == 0

    def close(self) -> None:
        """Close the connection; the next look opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> psycopg.Connection[Any]:
        if self._connection is None:
            self._connection = psycopg.connect(
                self._url, autocommit=True, connect_timeout=5, application_name="smena-drill"
            )
        return self._connection
