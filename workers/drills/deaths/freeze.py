"""SIGSTOP to a whole fleet, past every lease, then CONT: it wakes as a holder of what others have taken over."""

from __future__ import annotations

import signal
from dataclasses import replace

from workers.drills.drill import Control, Drill
from workers.drills.fleet import FleetPlan, send
from workers.drills.ground import Ground

_LEASED = 8
_LEASED_MS = 600
_LEAST = 4
_HEARTBEAT_S = 2
_LATE_WRITE_S = 1.5
_AGAIN_S = 12.0
"""The broker lets a silent peer go after three heartbeats; then the jobs' own leases have run out too."""


def fault(ground: Ground) -> None:
    """Freeze one host's fleet in the middle of its jobs, let another's do them, and wake the first."""
    frozen = ground.fleet
    taking_over = ground.new_fleet(replace(ground.plan, processes=1))
    taking_over.start()
    taking_over.wait_ready()
    workers = frozen.workers()
    ground.load.add("leased", ms=_LEASED_MS, count=_LEASED * 3)
    ground.until(lambda: _held(ground, workers) >= _LEAST, "jobs that run under a lease")
    with ground.stopped(frozen.pid, *frozen.members()):
        leased = [number for number, pid in ground.sight.leased().items() if pid in workers]
        struck = leased + [number for number, pid in ground.sight.running().items() if pid in workers]
        ground.strike(len(struck))
        done = "the other fleet to do what is frozen"
        again_s = ground.recovered(lambda: ground.sight.have_ended(struck), done, _AGAIN_S * 2)
        ground.bar("frozen jobs done elsewhere, s", again_s, _AGAIN_S)
        ground.notes["jobs frozen under a lease"] = len(leased)
        # The supervisor stays frozen: it would relieve workers that were silent so long before their late write.
        for pid in workers:
            send(pid, signal.SIGCONT)
        ground.go_on(_LATE_WRITE_S)
    frozen.wait_ready()


def _held(ground: Ground, workers: list[int]) -> int:
    return sum(pid in workers for pid in ground.sight.leased().values())


DRILL = Drill(
    name="freeze",
    group="deaths",
    summary="SIGSTOP to a whole fleet past every lease, another takes over, then CONT",
    fault=fault,
    least_bite=_LEAST,
    fleet=FleetPlan(settings={"amqp_heartbeat_s": _HEARTBEAT_S}),
    controls=(Control("no-term", "doubled"),),
)
