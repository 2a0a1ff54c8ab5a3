"""Stop the broker in order under load, and start it again."""

from __future__ import annotations

from workers.drills.drill import Drill
from workers.drills.ground import Ground
from workers.drills.outage import LEAST, outage


def fault(ground: Ground) -> None:
    """Stop the broker while workers are full, and start it again; the old rate must be there within 10 s."""
    with outage(ground) as broker:
        ground.strike(len(ground.sight.running()))
        broker.restart()


DRILL = Drill(
    name="broker-restart",
    group="weather",
    summary="stop the broker in order under load, and start it again",
    fault=fault,
    least_bite=LEAST,
    destructive=True,
)
