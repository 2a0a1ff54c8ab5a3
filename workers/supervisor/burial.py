"""Say against whom a death is held.

A process that ended because the supervisor had asked it to, or was killed for being late with that, died of no job:
nothing is held against those that ran. A drain that anybody else began (a mishap of the process, a TERM that a job may
have sent) is no alibi for what still ran at its end: a poison could drain its process, again and again. Else, if the
supervisor killed it for some jobs' sake, each of those is struck, and nobody beside them; if the fatal signal came in
one job's thread, that job; if it was killed for the sake of one of several, those; and if nobody knows better, all that
ran.

Then those that had just ended are suspected too, for a job may break its process and return, or leave behind what kills
it: in a child that lost what it settles by, and in one that died of itself. Whose ack has reached the broker never
comes again, so that strike costs nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from smena.records.strike import Strike, Why
from workers.process import stoppage
from workers.process.exits import Exit
from workers.process.flightfile import Running
from workers.supervisor.child import SupervisedChild
from workers.supervisor.evidence import Ended, Evidence

_DRAINED: Final = frozenset({Exit.DRAINED, Exit.DRAIN_OVERRAN, Exit.CRASHED})
"""How a child ends whose drain is over; a mishap may have begun it."""


@dataclass(frozen=True, slots=True)
class Burial:
    """One dead process, and the strikes of those that ran in it."""

    life: str
    strikes: Sequence[Strike] = ()


def bury(child: SupervisedChild, ended: Ended, left: Evidence, host: str) -> Burial:
    """Judge a death by what it left."""
    peak_kib = max(ended.peak_kib, child.memory.peak_kib)
    how = stoppage.told(ended.how) if child.killed and child.stopped_s else ended.how
    return Burial(
        child.orders.life,
        [
            Strike(
                job_id=job.job_id,
                attempt=job.attempt,
                life=child.orders.life,
                actor=job.actor,
                why=why,
                beside=len(left.ended if job.ended_at else left.running),
                how=how,
                peak_mib=peak_kib // 1024 or None,
                ran_s=job.ran_s(time.time()),
                worker=child.orders.name(),
                host=host,
                lines=left.lines or None,
                stack=left.fault.stack if why == "fault" and left.fault is not None else None,
            )
            for job, why in _struck(child, ended, left)
        ],
    )


def _struck(child: SupervisedChild, ended: Ended, left: Evidence) -> Sequence[tuple[Running, Why]]:
    """Return who is struck, each with the reason."""
    if child.culprits:
        whys = {(culprit.job_id, culprit.attempt): culprit.why for culprit in child.culprits}
        return [(job, whys[job.key]) for job in left.running if job.key in whys]
    if child.suspects:
        seen = {job.key for job in child.suspects}
        return [(job, "suspected") for job in left.running if job.key in seen]
    if _in_order(child, ended):
        return []
    if len(left.blamed) == 1:
        return [(left.blamed[0], "fault")]
    if left.blamed:  # many on one thread: the event loop's
        return [(job, "suspected") for job in left.blamed]
    before = left.ended if left.is_broken or _died_of_itself(child, ended) else ()
    return [*((job, "suspected") for job in left.running), *((job, "ended") for job in before)]


def _died_of_itself(child: SupervisedChild, ended: Ended) -> bool:
    """Say whether neither the supervisor nor a drain brought it to its end: in a drain all that ends is settled."""
    return not (child.killed or (child.draining and ended.code in _DRAINED))


def _in_order(child: SupervisedChild, ended: Ended) -> bool:
    """Say whether it ended because the supervisor had asked it to: a job may exit with whatever code.

    That goes for the codes a child has for QUIT, for a lost supervisor and for a bad setting too. Of those, only a
    child that somebody else has sent a QUIT can have been at work; what ran there is suspected, as after a KILL.
    """
    return child.asked and (child.killed or (child.draining and ended.signal is None))
