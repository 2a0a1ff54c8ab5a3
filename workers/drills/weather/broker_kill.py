"""SIGKILL to the broker under load, and start it again."""

from __future__ import annotations

from workers.drills.drill import Drill
from workers.drills.full_rate import FullRate
from workers.drills.ground import Ground

_LEAST = 8
_FULL_RATE_S = 10.0


def fault(ground: Ground) -> None:
    """Kill the broker while workers are full; after its port is open the old rate must be there within 10 s."""
    rate = FullRate(ground)
    ground.full()
    broker = ground.services.rabbitmq
    try:
        running = ground.sight.running()
        broker.kill()
        ground.strike(len(running))
    finally:
        broker.start()
    opened = ground.sight.now()
    ground.bar("full rate again after the port is open, s", rate.again(ground, opened, _FULL_RATE_S * 3), _FULL_RATE_S)
    ground.until(ground.fleet.is_ready, "the fleet to be ready")


DRILL = Drill(
    name="broker-kill",
    group="weather",
    summary="SIGKILL to the broker under load, and start it again",
    fault=fault,
    least_bite=_LEAST,
    destructive=True,
)
