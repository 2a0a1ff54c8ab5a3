"""Most jobs of an ordered queue are of one key: it is told of, keeps its order, and the other partitions go on."""

from __future__ import annotations

import json
from typing import Final, LiteralString

from workers.drills.drill import Drill
from workers.drills.fleet import FleetPlan
from workers.drills.ground import Ground
from workers.drills.load import LoadPlan
from workers.drills.ordered_book import VIOLATIONS

_OTHERS: Final = 20
_HOT_DONE: Final = 100
_DONE: Final[LiteralString] = """
SELECT count(*) FILTER (WHERE number %% 5 > 0), count(*) FILTER (WHERE number %% 5 = 0)
FROM drill.effects WHERE run = %(run)s
"""
_LEFT: Final[LiteralString] = """
SELECT count(*) FROM drill.jobs WHERE run = %(run)s AND number %% 5 > 0 AND accepted_at IS NOT NULL
AND NOT EXISTS (SELECT FROM drill.effects WHERE effects.run = %(run)s AND effects.number = jobs.number)
"""


def fault(ground: Ground) -> None:
    """Let the key grow hot, and see what becomes of it and of the others."""
    ground.until(lambda: bool(_told(ground)), "the hot key to be told of")
    [(waiting,)] = ground.sight.rows(_LEFT)
    [(hot, others)] = ground.sight.rows(_DONE)
    ground.strike(waiting)
    ground.recovered(lambda: _is_beyond(ground, hot + _HOT_DONE, others + _OTHERS), "the key and the others to go on")
    [(violations,)] = ground.sight.rows(VIOLATIONS)
    ground.bar("effects out of their key's order", violations, 0)
    ground.bar("keys told of as hot", len(_told(ground)), 1)


def _is_beyond(ground: Ground, hot: int, others: int) -> bool:
    [(done, done_others)] = ground.sight.rows(_DONE)
    return bool(done >= hot and done_others >= others)


def _told(ground: Ground) -> set[str]:
    """Return the keys that the fleet's event log names as hot."""
    if not ground.fleet.events.exists():
        return set()
    lines = ground.fleet.events.read_text().splitlines()
    return {event["key"] for event in map(json.loads, lines) if event["event"] == "key.hot"}


DRILL = Drill(
    name="hot-key",
    group="work",
    summary="four of five jobs of an ordered queue are of one key",
    fault=fault,
    load=LoadPlan(ahead=400, ms=10, actors=("hot",), outbox_every=0, module="workers.drills.ordered_book"),
    fleet=FleetPlan(threads=4, settings={"books": "workers.drills.ordered_book", "partitions_lease_s": 4}),
    least_bite=50,
)
