"""The fleet's connections to PostgreSQL fall silent without an end, and nobody is told (half-open)."""

from __future__ import annotations

from contextlib import AbstractContextManager

from workers.drills.behind_proxy import DATABASE, proxied
from workers.drills.drill import Drill
from workers.drills.fleet import FleetPlan
from workers.drills.full_rate import FullRate
from workers.drills.ground import Ground

_LEAST = 8
_SILENT_S = 6.0
_FULL_RATE_S = 10.0


def around(ground: Ground) -> AbstractContextManager[dict[str, str]]:
    """Put a proxy before the fleet's database."""
    return proxied(ground, DATABASE)


def fault(ground: Ground) -> None:
    """Swallow every byte for longer than a statement may take; after it the old rate must be there within 10 s."""
    proxy = ground.proxies[DATABASE]
    rate = FullRate(ground)
    ground.strike(len(ground.full()))
    proxy.deafen()
    try:
        ground.until(lambda: not ground.fleet.is_ready(), "readiness to fail")
        ground.until(lambda: not ground.sight.running(), "the server to end the transactions nobody goes on with")
        ground.go_on(_SILENT_S)
    finally:
        proxy.cut()
        proxy.heal()
    healed = ground.sight.now()
    again_s = rate.again(ground, healed, _FULL_RATE_S * 3)
    ground.bar("full rate again after the silence, s", again_s, _FULL_RATE_S)
    ground.until(ground.fleet.is_ready, "the fleet to be ready")


DRILL = Drill(
    name="half-open-database",
    group="weather",
    summary="connections to PostgreSQL fall silent without an end",
    fault=fault,
    least_bite=_LEAST,
    fleet=FleetPlan(settings={"database_statement_timeout_s": 2, "database_connect_timeout_s": 1}),
    around=around,
)
