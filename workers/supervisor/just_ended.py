"""Say which of the jobs that had ended in a process may be what it died of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from workers.process.flightfile import Running

RECENT_S: Final = 1.0
"""How long after its end a job may still be what a process dies of; its ack leaves within some milliseconds."""
MOST_RECENT: Final = 16
"""Of those that had ended, the last ones only: each is a suspect."""


def just_ended(begun: Sequence[Running], broken_at: float, dead_at: float) -> list[Running]:
    """Return of these jobs, those that had ended when the process was dead and may be what it died of.

    It may have died of one that ended within `RECENT_S` before it broke, or, not known to have been broken, before it
    was dead; and of one that ran when it broke. What began after that is none of it.
    """
    ended = sorted((job for job in begun if job.ended_at), key=lambda job: job.ended_at, reverse=True)
    at_s = broken_at or dead_at
    before = [job for job in ended if at_s - RECENT_S <= job.ended_at <= at_s]
    meanwhile = [job for job in ended if job.since <= at_s < job.ended_at]
    return list({job.key: job for job in meanwhile + before[:MOST_RECENT]}.values())
