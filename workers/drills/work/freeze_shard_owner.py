"""SIGSTOP to the workers that hold slices of a batch, past their lease in the middle of a write, then CONT."""

from __future__ import annotations

import signal
from dataclasses import replace

from workers.drills import book
from workers.drills.batch_load import BatchLoad
from workers.drills.drill import Control, Drill
from workers.drills.fleet import Fleet, FleetPlan, send
from workers.drills.ground import Ground
from workers.drills.load import LoadPlan

_ITEMS = 700
_MS = 60
_LEAST = 8
_AGAIN_S = 20.0
"""The slices' lease of 3 s; the broker lets the frozen shard jobs go after three heartbeats of 2 s."""

_LATE_WRITE_S = 1.5


def fault(ground: Ground) -> None:
    """Freeze the owners, let another fleet have their slices, and wake them in the middle of their items."""
    frozen = ground.fleet
    taking_over = ground.new_fleet(replace(ground.plan, processes=1))
    taking_over.start()
    taking_over.wait_ready()
    batch = BatchLoad(ground, book.item, _ITEMS, _MS, shards=8)
    ground.until(lambda: _frozen_in_hand(ground, frozen, batch), f"{_LEAST} items in hand")
    frozen.wait_ready()
    batch.judge(ground)


def _frozen_in_hand(ground: Ground, frozen: Fleet, batch: BatchLoad) -> bool:
    """Freeze the fleet; where it has enough items in hand then, go through with it, else let it go on."""
    workers = frozen.workers()
    with ground.stopped(frozen.pid, *frozen.members()):
        struck = batch.in_hand(*workers)
        if len(struck) < _LEAST:
            return False
        ground.strike(len(struck) + len(ground.sight.running()))
        done = "the other fleet to do what is frozen"
        again_s = ground.recovered(lambda: len(batch.effective(struck)) == len(struck), done, _AGAIN_S * 1.5)
        ground.bar("frozen items done elsewhere, s", again_s, _AGAIN_S)
        ground.notes["items frozen"] = len(struck)
        # The supervisor stays frozen: it would relieve workers that were silent so long before their late write.
        for pid in workers:
            send(pid, signal.SIGCONT)
        ground.go_on(_LATE_WRITE_S)
        ground.bar("writes accepted from a stale holder", batch.written_by(struck, workers), 0)
    return True


DRILL = Drill(
    name="freeze-shard-owner",
    group="work",
    summary="SIGSTOP to the owners of slices past their lease in mid-write, another takes over, then CONT",
    fault=fault,
    least_bite=_LEAST,
    load=LoadPlan(ahead=4, ms=20),
    fleet=FleetPlan(threads=4, settings={"amqp_heartbeat_s": 2}),
    controls=(Control("no-slice-term", "doubled"),),
)
