"""A job that waits for ever in C code, past its soft and its hard limit, among neighbours."""

from __future__ import annotations

from workers.drills.drill import Drill
from workers.drills.fleet import is_alive
from workers.drills.ground import Ground
from workers.drills.load import LoadPlan

_LEAST = 4
_DONE_S = 10.0
"""The limit, its grace, a new process, and the second attempt; in drills 0.5 s, 1 s, and no more than the rest."""


def fault(ground: Ground) -> None:
    """Send the job, see its process replaced while the neighbours finish where they are, and its second run end."""
    ground.full()
    ground.load.add("hang")
    ground.until(ground.sight.started, "the job to hang")
    [(number, victim)] = ground.sight.started().items()
    neighbours = list(ground.sight.running(victim))
    ground.strike(len(neighbours) + 1)
    done_s = ground.recovered(lambda: ground.sight.have_ended([number]), "the job to be done in another process")
    ground.bar("the hanging job is done elsewhere, s", done_s, _DONE_S)
    ground.bar("processes that outlived their hanging job", int(is_alive(victim)), 0)
    ground.bar("neighbours that were not finished", ground.sight.unended(neighbours), 0)
    ground.bar("neighbours done in another process", len(ground.sight.done_by(neighbours) - {victim}), 0)
    ground.until(lambda: len(set(ground.fleet.workers()) - {victim}) == ground.plan.processes, "a new worker")


DRILL = Drill(
    name="hang",
    group="deaths",
    summary="a job in C code past its hard limit, among neighbours",
    fault=fault,
    least_bite=_LEAST,
    load=LoadPlan(actors=("work", "awork", "work", "work")),
)
