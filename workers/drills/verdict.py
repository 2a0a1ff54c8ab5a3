"""The judge: what a run came to, by the rows of the drills' own tables and the messages that are left.

One statement counts it all; `smena drill run --sql` prints it, so that anybody can repeat it on a database that was
kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from workers.drills.sight import Sight

SQL: Final = """
WITH job AS (
    SELECT * FROM drill.jobs WHERE run = %(run)s
), effect AS (
    SELECT number, count(*) AS times, max(attempt) AS attempt
    FROM drill.effects WHERE run = %(run)s GROUP BY number
), letter AS (
    SELECT job_id, count(*) AS times FROM smena.dead_letters JOIN job USING (job_id) GROUP BY job_id
), judged AS (
    SELECT job.*,
           coalesce(effect.times, 0) AS effects,
           coalesce(letter.times, 0) AS letters,
           greatest(effect.attempt - job.attempts, 0) AS spent
    FROM job LEFT JOIN effect USING (number) LEFT JOIN letter USING (job_id)
)
SELECT count(*) FILTER (WHERE accepted_at IS NOT NULL) AS accepted,
       coalesce(sum(effects), 0) AS effects,
       count(*) FILTER (WHERE letters > 0) AS dead,
       count(*) FILTER (WHERE accepted_at IS NOT NULL AND effects = 0 AND letters = 0) AS lost,
       coalesce(sum(greatest(effects + letters - 1, 0)), 0) AS doubled,
       coalesce(sum(CASE WHEN guilty THEN 0 WHEN letters > 0 THEN 1 ELSE spent END), 0) AS innocent_attempts,
       count(*) FILTER (WHERE guilty AND accepted_at IS NOT NULL AND letters = 0) AS unpunished
FROM judged
"""
LEFT_ROWS: Final = """
SELECT (SELECT count(*) FROM smena.outbox JOIN drill.jobs ON job_id = id WHERE run = %(run)s AND state <> 'sent')
     + (SELECT count(*) FROM smena.starts JOIN drill.jobs USING (job_id) WHERE run = %(run)s)
"""
LEFT_SESSIONS: Final = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name ~ '^(worker|relay|archivist|scheduler)-[0-9]+'
"""


@dataclass(frozen=True)
class Verdict:
    """What the judge counted."""

    accepted: int
    effects: int
    dead: int
    lost: int
    doubled: int
    innocent_attempts: int
    unpunished: int

    @property
    def holds(self) -> bool:
        """Say whether nothing was lost, doubled or blamed, and every guilty job is a dead letter."""
        return not self.faults()

    def faults(self) -> set[str]:
        """Return what was found: lost, doubled, blamed, unpunished."""
        found = {
            "lost": self.lost,
            "doubled": self.doubled,
            "blamed": self.innocent_attempts,
            "unpunished": self.unpunished,
        }
        return {name for name, count in found.items() if count}


def judge(sight: Sight) -> Verdict:
    """Judge the run that ``sight`` looks at."""
    [row] = sight.rows(SQL)
    return Verdict(*(int(number) for number in row))


def left_in_database(sight: Sight, *, sessions: bool) -> int:
    """Return the rows that wait in the outbox or begun and not ended, and with ``sessions`` the fleet's sessions.

    For a fleet that has stopped.
    """
    [(rows,)] = sight.rows(LEFT_ROWS)
    open_sessions = sight.rows(LEFT_SESSIONS)[0][0] if sessions else 0
    return int(rows) + int(open_sessions)
