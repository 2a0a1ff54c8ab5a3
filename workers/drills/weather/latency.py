"""Every byte between the fleet and its broker and database takes 200 ms."""

from __future__ import annotations

from contextlib import AbstractContextManager

from workers.drills.behind_proxy import BROKER, DATABASE, proxied
from workers.drills.drill import Drill
from workers.drills.full_rate import FullRate
from workers.drills.ground import Ground

_LEAST = 8
_DELAY_S = 0.2
_GOES_ON = 30
_FULL_RATE_S = 10.0


def around(ground: Ground) -> AbstractContextManager[dict[str, str]]:
    """Put proxies before broker and database."""
    return proxied(ground, BROKER, DATABASE)


def fault(ground: Ground) -> None:
    """Slow everything down under load: jobs go on and the fleet stays ready; without it the old rate is back."""
    rate = FullRate(ground)
    ground.strike(len(ground.full()))
    for proxy in ground.proxies.values():
        proxy.delay(_DELAY_S)
    slowed = ground.sight.now()
    try:
        ground.until(lambda: _ended(ground, slowed) >= _GOES_ON, "jobs to go on ending")
        ground.bar("looks at a fleet that was not ready", 1 - int(ground.fleet.is_ready()), 0)
    finally:
        for proxy in ground.proxies.values():
            proxy.heal()
    healed = ground.sight.now()
    again_s = rate.again(ground, healed, _FULL_RATE_S * 3)
    ground.bar("full rate again without the latency, s", again_s, _FULL_RATE_S)


def _ended(ground: Ground, since: float) -> int:
    """Count jobs that began and ended since then; those at work when it began are not among them."""
    return sum(at > since + 1 for at in ground.sight.ended_at())


DRILL = Drill(
    name="latency",
    group="weather",
    summary="200 ms on every way between the fleet and its broker and database",
    fault=fault,
    least_bite=_LEAST,
    around=around,
)
