"""Say against whom a death is held.

A process that was asked to end, or killed for a reason of the supervisor's own, died of no job: nothing is held
against those that ran. Else, if the supervisor killed it for one job's sake or the fatal signal came in one job's
thread, that job alone is struck; if it was killed for the sake of one of several, those; and if nobody knows better,
all that ran.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from smena.records.strike import Strike, Why
from workers.process.exits import Exit
from workers.process.recorder import Running
from workers.supervisor.child import SupervisedChild
from workers.supervisor.evidence import Ended, Evidence

_OF_ITS_OWN = frozenset({Exit.ENDED_NOW, Exit.PARENT_LOST, Exit.MISCONFIGURED})


@dataclass(frozen=True, slots=True)
class Burial:
    """One dead process, and the strikes of those that ran in it."""

    life: str
    strikes: Sequence[Strike] = ()


def bury(child: SupervisedChild, ended: Ended, left: Evidence, host: str) -> Burial:
    """Judge a death by what it left."""
    struck, why = _struck(child, ended, left)
    peak_kib = max(ended.peak_kib, child.memory.peak_kib)
    return Burial(
        child.orders.life,
        [
            Strike(
                job_id=job.job_id,
                attempt=job.attempt,
                life=child.orders.life,
                actor=job.actor,
                why=why,
                beside=len(left.running),
                how=ended.how,
                peak_mib=peak_kib // 1024 or None,
                ran_s=round(max(0.0, time.time() - job.since), 3),
                worker=child.orders.name(),
                host=host,
                lines=left.lines or None,
                stack=left.fault.stack if why == "fault" and left.fault is not None else None,
            )
            for job in struck
        ],
    )


def _struck(child: SupervisedChild, ended: Ended, left: Evidence) -> tuple[Sequence[Running], Why]:
    culprit = child.culprit
    if culprit is not None:
        named = [job for job in left.running if (job.job_id, job.attempt) == (culprit.job_id, culprit.attempt)]
        return named, culprit.why
    if child.suspects:
        seen = {(job.job_id, job.attempt) for job in child.suspects}
        return [job for job in left.running if (job.job_id, job.attempt) in seen], "suspected"
    if _in_order(child, ended):
        return (), "suspected"
    if len(left.blamed) == 1:
        return left.blamed, "fault"
    return left.blamed or left.running, "suspected"  # many on one thread: the event loop's


def _in_order(child: SupervisedChild, ended: Ended) -> bool:
    """Say whether it ended because it was to end. A job may still exit the process, with whatever code."""
    if child.killed:
        return True
    return ended.signal is None and (child.draining or ended.code in _OF_ITS_OWN)
