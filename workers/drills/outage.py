"""Take the broker away from a busy fleet, and measure how long after it is back the fleet works as before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from workers.drills.full_rate import FullRate
from workers.drills.ground import Ground
from workers.local.service import Service

LEAST: Final = 8
"""So many jobs must run when it goes."""

_FULL_RATE_S: Final = 10.0


@contextmanager
def outage(ground: Ground) -> Iterator[Service]:
    """Give the broker when the workers are full; at the end of the block, where it must be up again, measure."""
    rate = FullRate(ground)
    ground.full()
    yield ground.services.rabbitmq
    opened = ground.sight.now()
    again_s = rate.again(ground, opened, _FULL_RATE_S * 3)
    ground.bar("full rate again after the port is open, s", again_s, _FULL_RATE_S)
    ground.until(ground.fleet.is_ready, "the fleet to be ready")
