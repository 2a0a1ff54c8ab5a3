"""SIGKILL to a worker that has slices of a batch in hand: others take them when its lease is over."""

from __future__ import annotations

import signal

from workers.drills import book
from workers.drills.batch_load import BatchLoad
from workers.drills.drill import Drill
from workers.drills.fleet import send
from workers.drills.ground import Ground
from workers.drills.load import LoadPlan

_ITEMS = 1200
_MS = 15
_LEAST = 10
_AGAIN_S = 8.0
"""The lease of 3 s, a look for what is free, and the items themselves."""


def fault(ground: Ground) -> None:
    """Kill the worker in the middle of its slices; what it had in hand must be done elsewhere, and each item once."""
    batch = BatchLoad(ground, book.item, _ITEMS, _MS)
    victims = ground.fleet.workers()
    struck: list[int] = []

    def killed() -> bool:
        for victim in victims:
            with ground.stopped(victim):
                struck[:] = batch.in_hand(victim)
                if len(struck) >= _LEAST:
                    ground.strike(len(struck))
                    send(victim, signal.SIGKILL)
                    return True
        return False

    ground.until(killed, f"a worker to have {_LEAST} items in hand")
    again_s = ground.recovered(lambda: len(batch.effective(struck)) == len(struck), "its items to be done")
    ground.bar("items of the dead owner done elsewhere, s", again_s, _AGAIN_S)
    batch.judge(ground)
    ground.notes["items of the batch"] = _ITEMS


DRILL = Drill(
    name="kill-shard-owner",
    group="work",
    summary="SIGKILL to a worker that has slices of a batch in hand",
    fault=fault,
    least_bite=_LEAST,
    load=LoadPlan(ahead=10, ms=20),
)
