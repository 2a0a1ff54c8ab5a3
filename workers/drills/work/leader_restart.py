"""The process that leads is killed, again and again, and then drained: another leads, under a greater term."""

from __future__ import annotations

import json
import signal
from itertools import pairwise
from typing import Final

from workers.drills.drill import Control, Drill
from workers.drills.fleet import Fleet, FleetPlan, send
from workers.drills.ground import Ground
from workers.drills.reign import standing_by

_LEADS: Final = """
SELECT term FROM smena.leases
WHERE name = 'leader:scheduler' AND owner IS NOT NULL AND expires_at > clock_timestamp()
"""
_KILLS: Final = 2
_AT_ONCE_S: Final = 1.0
_AFTER_KILL: Final = "nobody leads after a kill, s"
_PATIENCE_S: Final = 20.0
"""Longer than a lease, after which another leads even where a guard is out."""


def fault(ground: Ground) -> None:
    """Kill the scheduler of two fleets that leads, again and again; then let the one that leads end in order."""
    ground.until(lambda: _term(ground), "the first fleet's scheduler to lead", _PATIENCE_S)
    second = ground.new_fleet(FleetPlan(processes=1, threads=1, roles=("scheduler",)))
    second.start()
    second.wait_ready()
    seen = [_term(ground)]
    killed_s = max(_followed(ground, signal.SIGKILL, seen) for _ in range(_KILLS))
    resigned_s = _followed(ground, signal.SIGTERM, seen)
    ground.bar(_AFTER_KILL, killed_s, _AT_ONCE_S)
    ground.bar("nobody leads after a drain, s", resigned_s, _AT_ONCE_S)
    ground.bar("terms that did not grow", sum(later <= earlier for earlier, later in pairwise(seen)), 0)


def _followed(ground: Ground, how: signal.Signals, seen: list[int]) -> float:
    """End the scheduler that leads while another stands by; return how long nobody led."""
    ground.until(lambda: standing_by(ground, "scheduler"), "another to stand by", _PATIENCE_S)
    fleet, leader = _leader(ground, seen[-1])
    ground.strike(1)
    send(leader, how)
    took_s = ground.recovered(lambda: _term(ground) not in (0, seen[-1]), "another to lead", _PATIENCE_S)
    seen.append(_term(ground))
    ground.until(
        lambda: leader not in fleet.children("scheduler").values(), "the one that ended to be replaced", _PATIENCE_S
    )
    fleet.wait_ready()
    return took_s


def _leader(ground: Ground, term: int) -> tuple[Fleet, int]:
    """Return the process that became leader under that term, and its fleet, once it has told so."""
    found: list[tuple[Fleet, int]] = []

    def told() -> bool:
        found[:] = [(fleet, pid) for fleet in ground.fleets for pid in _became(fleet, term)]
        return bool(found)

    ground.until(told, "the leader to tell that it leads", _PATIENCE_S)
    return found[0]


def _became(fleet: Fleet, term: int) -> list[int]:
    lines = fleet.events.read_text(encoding="utf-8").split("\n")[:-1]  # the last may be half written
    told = [json.loads(line) for line in lines if '"leader.became"' in line]
    return [one["pid"] for one in told if one["term"] == term]


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
    controls=(Control("no-session-lock", _AFTER_KILL),),
)
