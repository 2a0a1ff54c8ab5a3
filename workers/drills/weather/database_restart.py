"""Stop PostgreSQL under load, and start it again."""

from __future__ import annotations

from workers.drills.drill import Drill
from workers.drills.full_rate import FullRate
from workers.drills.ground import Ground

_LEAST = 8
_FULL_RATE_S = 10.0


def fault(ground: Ground) -> None:
    """Restart the server while workers are full; the old rate must be there within 10 s."""
    rate = FullRate(ground)
    ground.full()
    ground.strike(len(ground.sight.running()))
    ground.sight.close()
    ground.services.postgresql.restart()
    opened = ground.sight.now()
    ground.bar("full rate again after the server is up, s", rate.again(ground, opened, _FULL_RATE_S * 3), _FULL_RATE_S)
    ground.until(ground.fleet.is_ready, "the fleet to be ready")


DRILL = Drill(
    name="database-restart",
    group="weather",
    summary="stop PostgreSQL under load, and start it again",
    fault=fault,
    least_bite=_LEAST,
    destructive=True,
)
