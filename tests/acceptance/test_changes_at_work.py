"""Fleets that are changed under real jobs: nothing lost, nothing doubled, no attempt spent."""

import os
import signal
from collections import Counter

from smena.amqp import names
from tests.acceptance.fleet.real import RealFleet
from tests.acceptance.jobs import book
from tests.fixtures.eventually import eventually
from tests.fixtures.fix_broker import BrokerView
from workers.process.exits import Exit


def effects_by(fleet: RealFleet) -> Counter[int]:
    """Return how many effects each process has made."""
    return Counter(dict(fleet.rows("SELECT pid, count(*)::int FROM effects GROUP BY pid")))


def test_a_reload_under_load_loses_and_doubles_nothing(real_fleet: RealFleet) -> None:
    real_fleet.up(processes=2)
    before = real_fleet.wait_ready_workers(2)
    keys = [f"k{number}" for number in range(3000)]
    real_fleet.send(*(book.note.message(key) for key in keys[:1500]))

    real_fleet.signal(signal.SIGHUP)
    real_fleet.send(*(book.note.message(key) for key in keys[1500:2000]))
    eventually(lambda: real_fleet.events("reload.finished"), timeout_s=60)
    real_fleet.send(*(book.note.message(key) for key in keys[2000:]))

    eventually(lambda: len(real_fleet.effects()) == len(keys), timeout_s=60)
    after = real_fleet.pids("worker")
    made = effects_by(real_fleet)
    assert set(real_fleet.effects().values()) == {1}
    assert {*made} <= {*before.values(), *after.values()}
    assert {*made} & {*before.values()}
    assert {*made} & {*after.values()}
    assert real_fleet.rows("SELECT DISTINCT attempt FROM effects") == [(1,)]
    assert not real_fleet.events("child.exited")


def test_p29_recycling_under_load_loses_and_doubles_nothing(real_fleet: RealFleet) -> None:
    real_fleet.up(processes=2, worker_max_jobs=200, telemetry_tally_s=0.1)
    real_fleet.wait_ready_workers(2)
    sent = 0
    while len(real_fleet.events("child.relieved")) < 4:
        real_fleet.send(*(book.note.message(f"k{number}") for number in range(sent, sent + 50)))
        sent += 50
        eventually(lambda: len(real_fleet.effects()), until=sent.__eq__)

    assert set(real_fleet.effects().values()) == {1}
    assert real_fleet.rows("SELECT DISTINCT attempt FROM effects") == [(1,)]
    assert len(effects_by(real_fleet)) >= 4
    assert not real_fleet.events("child.exited")


def test_a_paused_fleet_takes_no_jobs_until_it_goes_on(real_fleet: RealFleet, broker: BrokerView) -> None:
    real_fleet.up(processes=2)
    workers = real_fleet.wait_ready_workers(2)
    queue = names.work_queue(broker.prefix, "jobs")
    eventually(lambda: broker.consumers(queue) == 2)

    real_fleet.signal(signal.SIGTSTP)
    eventually(lambda: broker.consumers(queue) == 0)
    os.kill(workers["0"], signal.SIGKILL)
    eventually(lambda: real_fleet.pids("worker").get("0", workers["0"]) != workers["0"])
    eventually(lambda: real_fleet.get("/ready") == (503, "paused\n"))
    real_fleet.send(*(book.note.message(f"k{number}") for number in range(20)))
    assert broker.depth(queue) == 20
    assert broker.consumers(queue) == 0
    assert not real_fleet.effects()
    real_fleet.signal(signal.SIGCONT)

    eventually(lambda: len(real_fleet.effects()) == 20)
    eventually(lambda: real_fleet.get("/ready")[0] == 200)


def test_a_bug_on_the_event_loop_ends_the_worker_in_order(real_fleet: RealFleet) -> None:
    real_fleet.up()
    before = real_fleet.wait_ready_workers(1)["0"]
    real_fleet.send(book.astray.message("a"))

    eventually(lambda: real_fleet.pids("worker").get("0", before) != before)

    bug = real_fleet.events("process.bug")[0]
    assert bug["where"] == "the event loop"
    assert "gone astray" in bug["error"]
    assert "_gone_astray" in bug["stack"]
    assert [event["code"] for event in real_fleet.events("child.exited")] == [Exit.CRASHED]
    real_fleet.send(book.note.message("b"))
    eventually(lambda: real_fleet.effects() == {"a": 1, "b": 1})
