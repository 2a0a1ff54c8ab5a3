"""The fleet's connections to the broker are reset, and then fall silent without an end (half-open)."""

from __future__ import annotations

from contextlib import AbstractContextManager

from workers.drills.behind_proxy import BROKER, proxied
from workers.drills.drill import Drill
from workers.drills.ground import Ground

_LEAST = 24
_CUTS = 3
_AGAIN_S = 3.0
_SILENT_S = 20.0
"""pika looks for signs of life every heartbeat and five seconds, and gives up at the second look without one."""


def around(ground: Ground) -> AbstractContextManager[dict[str, str]]:
    """Put a proxy before the fleet's broker."""
    return proxied(ground, BROKER)


def fault(ground: Ground) -> None:
    """Reset all connections again and again while workers are full; then let them fall silent."""
    proxy = ground.proxies[BROKER]
    slowest_s = 0.0
    for _ in range(_CUTS):
        running = ground.full()
        ground.strike(len(running))
        proxy.cut()
        slowest_s = max(slowest_s, _again(ground, _AGAIN_S * 5))
    ground.bar("jobs start again after a cut, s", slowest_s, _AGAIN_S)
    ground.until(ground.fleet.is_ready, "the fleet to be ready")
    ground.strike(len(ground.full()))
    proxy.deafen()
    try:
        ground.until(lambda: not ground.sight.running(), "what was delivered to end")
        ground.until(lambda: not ground.fleet.is_ready(), "readiness to fail")
    finally:
        proxy.heal()
    ground.bar("jobs start again after silence, s", _again(ground, _SILENT_S * 2), _SILENT_S)
    ground.until(ground.fleet.is_ready, "the fleet to be ready")


def _again(ground: Ground, within_s: float) -> float:
    """Wait until jobs run that were not delivered yet when it struck."""
    last = max(ground.sight.running(), default=0)
    return ground.recovered(lambda: max(ground.sight.running(), default=0) > last + 1, "new jobs to run", within_s)


DRILL = Drill(
    name="cut-link",
    group="weather",
    summary="connections to the broker are reset, then fall silent without an end",
    fault=fault,
    least_bite=_LEAST,
    around=around,
)
