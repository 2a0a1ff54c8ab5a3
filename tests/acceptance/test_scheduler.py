"""The scheduler as a real process: ticks take effect once, over a kill, and their ends are known."""

import os
import signal
from datetime import timedelta
from itertools import pairwise

import smena
from smena import schedules
from smena.settings.groups import Database as DatabaseSettings
from smena.store.database import Database
from tests.acceptance.fleet.real import RealFleet
from tests.acceptance.jobs import book
from tests.fixtures.eventually import eventually
from workers.process.exits import Exit

TICKS = "SELECT at, state, why, ending FROM smena.ticks WHERE schedule = 'every.second' ORDER BY at"


def test_ticks_take_effect_once_over_a_kill_of_the_scheduler(real_fleet: RealFleet) -> None:
    database = Database(DatabaseSettings.model_validate({"url": real_fleet.database_url}), "test")
    with database.transaction() as connection:
        second = smena.Schedule(smena.every(seconds=1), args=("tick",), overlap="allow")
        schedules.add(connection, "every.second", book.note, second)
    real_fleet.up(roles="scheduler,relay,worker", outbox_poll_s=0.2)
    eventually(lambda: len(real_fleet.rows(TICKS)) >= 2)
    victim = real_fleet.pids("scheduler")["0"]
    os.kill(victim, signal.SIGKILL)
    seen = len(real_fleet.rows(TICKS))
    eventually(lambda: real_fleet.pids("scheduler").get("0", victim) != victim)
    eventually(lambda: len(real_fleet.rows(TICKS)) >= seen + 2)
    with database.transaction() as connection:
        schedules.remove(connection, "every.second")
    eventually(lambda: all(row[3] == "done" for row in real_fleet.rows(TICKS)))
    ticks = real_fleet.rows(TICKS)
    assert real_fleet.effects() == {"tick": len(ticks)}
    assert {row[1] for row in ticks} == {"fired"}
    assert all(later[0] - earlier[0] == timedelta(seconds=1) for earlier, later in pairwise(ticks))
    real_fleet.signal(signal.SIGTERM)
    assert real_fleet.exit_code() == Exit.DRAINED
    database.close()
