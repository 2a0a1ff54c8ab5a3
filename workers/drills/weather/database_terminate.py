"""Every session of PostgreSQL is ended by its administrator, again and again, in the middle of transactions."""

from __future__ import annotations

from workers.drills.drill import Control, Drill
from workers.drills.ground import Ground

_LEAST = 24
_TIMES = 3
_AGAIN_S = 5.0
_TERMINATE = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""


def fault(ground: Ground) -> None:
    """End all sessions while workers are full, three times; what they ran must run again and end."""
    slowest_s = 0.0
    for _ in range(_TIMES):
        running = ground.full()
        ground.strike(len(running))
        ground.sight.rows(_TERMINATE)
        again_s = ground.recovered(lambda struck=running: ground.sight.have_ended(list(struck)), "what ran to end")  # type: ignore[misc]
        slowest_s = max(slowest_s, again_s)
    ground.bar("jobs whose session was ended are done, s", slowest_s, _AGAIN_S)
    ground.until(ground.fleet.is_ready, "the fleet to be ready")


DRILL = Drill(
    name="database-terminate",
    group="weather",
    summary="pg_terminate_backend of every session, in the middle of transactions",
    fault=fault,
    least_bite=_LEAST,
    destructive=True,
    controls=(Control("no-once-key", "doubled"),),
)
