"""The process that leads is killed, again and again, and then drained: another leads, under a greater term."""

from __future__ import annotations

import signal
from itertools import pairwise
from typing import Final

from workers.drills.drill import Drill
from workers.drills.fleet import Fleet, FleetPlan, send
from workers.drills.ground import Ground
from workers.drills.reign import standing_by

_LEADS: Final = """
SELECT term FROM smena.leases
WHERE name = 'leader:scheduler' AND owner IS NOT NULL AND expires_at > clock_timestamp()
"""
_KILLS: Final = 2
_AT_ONCE_S: Final = 1.0


def fault(ground: Ground) -> None:
    """Kill the leading scheduler of two fleets in turn; then let the one that leads end in order."""
    first = ground.fleet
    ground.until(lambda: _term(ground), "the first fleet's scheduler to lead")
    second = ground.new_fleet(FleetPlan(processes=1, threads=1, roles=("scheduler",)))
    second.start()
    second.wait_ready()
    seen = [_term(ground)]
    killed_s = max(_followed(ground, fleet, signal.SIGKILL, seen) for fleet in (first, second) * (_KILLS // 2))
    resigned_s = _followed(ground, first, signal.SIGTERM, seen)
    ground.bar("nobody leads after a kill, s", killed_s, _AT_ONCE_S)
    ground.bar("nobody leads after a drain, s", resigned_s, _AT_ONCE_S)
    ground.bar("terms that did not grow", sum(later <= earlier for earlier, later in pairwise(seen)), 0)


def _followed(ground: Ground, fleet: Fleet, how: signal.Signals, seen: list[int]) -> float:
    """End the scheduler of a fleet, which leads, while the other's stands by; return how long nobody led."""
    ground.until(lambda: standing_by(ground, "scheduler"), "another to stand by")
    [leader] = fleet.children("scheduler").values()
    ground.strike(1)
    send(leader, how)
    took_s = ground.recovered(lambda: _term(ground) not in (0, seen[-1]), "another to lead")
    seen.append(_term(ground))
    ground.until(lambda: leader not in fleet.children("scheduler").values(), "the one that ended to be replaced")
    fleet.wait_ready()
    return took_s


def _term(ground: Ground) -> int:
    """Return the term under which somebody leads now, or 0."""
    rows = ground.sight.rows(_LEADS)
    return int(rows[0][0]) if rows else 0


DRILL = Drill(
    name="leader-restart",
    group="work",
    summary="SIGKILL to the leading scheduler, again and again, then a drain of it",
    fault=fault,
    least_bite=_KILLS + 1,
)
