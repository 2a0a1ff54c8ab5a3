"""Two schedulers at once; the one that leads is killed between the two rows of a tick, and frozen there past its lease.

The table of the outbox is locked for a moment: whoever has written a tick's row and waits to write its job's is the
leader, and stands just between the two.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Final

import psycopg

from smena.book.schedule import Schedule
from smena.settings import load
from smena.timetable import every
from workers.drills.drill import Control, Drill
from workers.drills.fleet import FleetPlan, send
from workers.drills.ground import Ground
from workers.drills.ticks import Ticks

_KILLS: Final = 3
_SCHEDULES: Final = 4
_LEASE_S: Final = 3
_PATIENCE_S: Final = 20.0
_BACK_S: Final = 2.0 * _LEASE_S + 4
_SETTINGS: Final = {"leadership_lease_s": _LEASE_S, "leadership_retry_s": 1, "schedule_poll_s": 0.5}
_FIRST, _RIVAL = "scheduler-0", "rival"
_BETWEEN: Final = """
SELECT application_name FROM pg_stat_activity
WHERE wait_event_type = 'Lock' AND application_name IN ('scheduler-0', 'rival') AND query LIKE '%smena.outbox%'
  AND datname = current_database()
"""


def fault(ground: Ground) -> None:
    """Kill the leader three times in the middle of a tick, then freeze one there until another has led."""
    url = load(env=dict(ground.environ)).database.libpq_url()
    rival = ground.new_fleet(FleetPlan(roles=("scheduler",), settings={**_SETTINGS, "database_url": _named(url)}))
    rival.start()
    rival.wait_ready()
    fleets = {_FIRST: ground.fleets[0], _RIVAL: rival}
    with Ticks(ground) as ticks:
        for number in range(_SCHEDULES):
            ticks.add(f"each-second-{number}", Schedule(every(seconds=1), misfire="all", overlap="allow"))
        ground.until(lambda: ticks.fired() >= _SCHEDULES, "ticks to fire")
        for _ in range(_KILLS):
            _between(ground, url, lambda name: _send(ground, fleets[name].children("scheduler")["0"], signal.SIGKILL))
            _goes_on(ground, ticks, "ticks again after a kill, s")
        frozen: list[int] = []

        def freeze(name: str) -> None:
            frozen.append(fleets[name].children("scheduler")["0"])
            _send(ground, frozen[0], signal.SIGSTOP)

        _between(ground, url, freeze)
        _goes_on(ground, ticks, "ticks again after a freeze, s")
        send(frozen[0], signal.SIGCONT)
        thawed = ticks.fired()
        ground.until(lambda: ticks.fired() >= thawed + 2 * _SCHEDULES, "ticks to go on after the thaw", _PATIENCE_S)
        try:
            ticks.settle()
        finally:
            ticks.judge()  # where a guard is out, some jobs never end


def _between(ground: Ground, url: str, act: Callable[[str], None]) -> None:
    """Act on the scheduler that stands between the two rows of a tick; raise `NotInTime` when none comes to."""

    def found() -> bool:
        with psycopg.connect(url) as holder:
            holder.execute("LOCK TABLE smena.outbox IN SHARE MODE")
            with psycopg.connect(url, autocommit=True) as eye:
                for _ in range(40):
                    waiting = eye.execute(_BETWEEN).fetchone()
                    if waiting is not None:
                        act(waiting[0])
                        return True
        return False

    ground.until(found, "a scheduler to stand between the two rows", _PATIENCE_S)


def _send(ground: Ground, pid: int, number: signal.Signals) -> None:
    ground.strike(1)
    send(pid, number)


def _goes_on(ground: Ground, ticks: Ticks, what: str) -> None:
    seen = ticks.fired()
    back_s = ground.recovered(lambda: ticks.fired() >= seen + _SCHEDULES, "ticks to fire", _PATIENCE_S)
    ground.note_worst(what, back_s, _BACK_S)


def _named(url: str) -> str:
    """Return the address with a name of its own for the sessions, by which they are told apart."""
    return f"{url}{'&' if '?' in url else '?'}application_name={_RIVAL}"


DRILL = Drill(
    name="two-schedulers",
    group="work",
    summary="two schedulers; SIGKILL to the leader between a tick's two rows, then SIGSTOP there past its lease",
    fault=fault,
    least_bite=_KILLS + 1,
    fleet=FleetPlan(settings=_SETTINGS),
    controls=(Control("rows-apart", "ticks skipped"),),
)
