"""SIGKILL to the broker under load, and start it again."""

from __future__ import annotations

from workers.drills.drill import Drill
from workers.drills.ground import Ground
from workers.drills.outage import LEAST, outage


def fault(ground: Ground) -> None:
    """Kill the broker while workers are full; after its port is open the old rate must be there within 10 s."""
    with outage(ground) as broker:
        running = ground.sight.running()
        try:
            broker.kill()
            ground.strike(len(running))
        finally:
            broker.start()


DRILL = Drill(
    name="broker-kill",
    group="weather",
    summary="SIGKILL to the broker under load, and start it again",
    fault=fault,
    least_bite=LEAST,
    destructive=True,
)
