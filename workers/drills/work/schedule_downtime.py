"""Three hours without any scheduler, then one again: each policy keeps what it says, and no tick is unaccounted for.

Three hours are taken out of the schedules' rows, so for the database as much time has passed since they were decided.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from smena.book.schedule import Schedule
from smena.timetable import every
from workers.drills.drill import Control, Drill
from workers.drills.fleet import FleetPlan
from workers.drills.ground import Ground
from workers.drills.ticks import Ticks

_HOURS: Final = 3.0
_SCHEDULER: Final = FleetPlan(roles=("scheduler",), settings={"leadership_lease_s": 6, "schedule_poll_s": 0.5})


def fault(ground: Ground) -> None:
    """Kill the scheduler, let the time pass, start one again, and count what fired."""
    clock = ground.new_fleet(_SCHEDULER)
    clock.start()
    clock.wait_ready()
    with Ticks(ground) as ticks:
        beat = ticks.add("beat", Schedule(every(seconds=1), misfire="skip", overlap="allow"))
        by = {
            policy: ticks.add(policy, Schedule(every(minutes=10), misfire=policy, overlap="allow"))
            for policy in ("skip", "one", "all")
        }
        ground.until(lambda: ticks.fired() >= 2, "ticks to fire")
        clock.destroy()
        ground.strike(ticks.let_pass(_HOURS))
        lasts = {name: ticks.kept(name).since for name in ticks.names}
        clock = ground.new_fleet(_SCHEDULER)
        clock.start()
        clock.wait_ready()
        moved = lambda: all(ticks.kept(name).since > lasts[name] + timedelta(hours=1) for name in ticks.names)  # noqa: E731
        ground.recovered(moved, "all schedules to be decided")
        ground.until(lambda: any(row.tick.why == "on_time" for row in ticks.rows(beat)[:1]), "ticks on time")
        ticks.settle()
        ticks.judge()
        fired = {policy: [row for row in ticks.rows(name) if row.tick.state == "fired"] for policy, name in by.items()}
        late = {policy: sum(row.tick.why == "caught_up" for row in rows) for policy, rows in fired.items()}
        ground.bar("caught up by skip", late["skip"], 0)
        ground.bar("runs by one", len(fired["one"]), 1, at_most=False)
        ground.bar("caught up by one", late["one"], 1)
        ground.bar("runs by all", len(fired["all"]), 18, at_most=False)  # each ten minutes
        ground.notes["rows of the second's ticks"] = len(ticks.rows(beat))


DRILL = Drill(
    name="schedule-downtime",
    group="work",
    summary="no scheduler for three hours (of a moved clock), then one again",
    fault=fault,
    least_bite=10_000,
    fleet=FleetPlan(roles=("worker", "relay", "archivist")),
    controls=(Control("spans-untold", "ticks skipped"),),
)
