"""Fleets that are changed under real jobs: nothing lost, nothing doubled, no attempt spent."""

import os
import signal
from collections import Counter

from smena.amqp import names
from tests.acceptance.fleet.real import RealFleet
from tests.acceptance.jobs import book, deaths, many_queues, opens_at_import
from tests.fixtures.eventually import eventually
from tests.fixtures.fix_broker import BrokerView
from workers.process.exits import Exit

LEAKY_MIB = 180
"""Well above what a worker holds that has done nothing."""


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
    eventually(lambda: real_fleet.events("reload.finished"))
    real_fleet.send(*(book.note.message(key) for key in keys[2000:]))

    eventually(lambda: len(real_fleet.effects()) == len(keys))
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
    gaps_s = sorted(event["gap_s"] for event in real_fleet.events("child.relieved"))
    assert gaps_s[int(len(gaps_s) * 0.99)] < 0.05
    assert f'smena_relief_gap_seconds_count{{role="worker"}} {len(gaps_s)}.0' in real_fleet.get("/metrics")[1]


def test_p29_an_actor_that_leaks_is_contained_and_its_jobs_are_done_once(real_fleet: RealFleet) -> None:
    real_fleet.up(worker_max_memory_mib=LEAKY_MIB, telemetry_tally_s=0.1)
    before = real_fleet.wait_ready_workers(1)["0"]
    keys = [f"k{number}" for number in range(60)]
    real_fleet.send(*(book.leak.message(key, 4) for key in keys[:40]))
    eventually(lambda: real_fleet.events("child.relieved"))
    real_fleet.send(*(book.leak.message(key, 0) for key in keys[40:]))

    eventually(lambda: len(real_fleet.effects()) == len(keys))
    assert set(real_fleet.effects().values()) == {1}
    assert {*effects_by(real_fleet)} > {before}
    assert real_fleet.rows("SELECT DISTINCT attempt FROM effects") == [(1,)]
    assert all("MiB held" in event["why"] for event in real_fleet.events("child.relieved"))
    assert not real_fleet.events("child.exited")


def test_a_worker_is_ready_when_it_takes_from_all_its_queues(real_fleet: RealFleet, broker: BrokerView) -> None:
    """Else a relief would send the old one away before the new one takes anything."""
    broker.knows(*many_queues.QUEUES)
    real_fleet.up(books=many_queues.__name__)
    real_fleet.wait_ready_workers(1)
    assert broker.consumers(names.work_queue(broker.prefix, many_queues.QUEUES[-1])) == 1


def test_without_preload_each_worker_imports_the_books_itself(real_fleet: RealFleet) -> None:
    real_fleet.up("--no-preload", processes=2, books="tests.acceptance.jobs.opens_at_import")
    workers = real_fleet.wait_ready_workers(2)
    real_fleet.send(*(opens_at_import.who_imported.message() for _ in range(50)))

    eventually(lambda: len(real_fleet.rows("SELECT pid FROM effects")) == 50)

    assert real_fleet.rows("SELECT count(*) FROM effects WHERE key <> pid::text") == [(0,)]
    assert {pid for (pid,) in real_fleet.rows("SELECT DISTINCT pid FROM effects")} <= {*workers.values()}
    assert not [event for event in real_fleet.events("nursery.ready") if event["warning"]]


def test_a_paused_fleet_takes_no_jobs_until_it_goes_on(real_fleet: RealFleet, broker: BrokerView) -> None:
    real_fleet.up(processes=2)
    workers = real_fleet.wait_ready_workers(2)
    queue = names.work_queue(broker.prefix, "jobs")
    assert broker.consumers(queue) == 2  # who is ready takes jobs, else its relief would leave a gap

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


def test_p30_a_worker_without_descriptors_is_replaced_and_its_jobs_spend_no_attempt(real_fleet: RealFleet) -> None:
    real_fleet.up(processes=2, telemetry_tally_s=60)
    before = {*real_fleet.wait_ready_workers(2).values()}
    real_fleet.send(deaths.hoards.message("a"))
    eventually(real_fleet.effects)
    keys = [f"k{number}" for number in range(60)]
    real_fleet.send(*(book.note_once.message(key) for key in keys[:30]), *map(book.anote_once.message, keys[30:]))

    eventually(lambda: len(real_fleet.effects()) == len(keys) + 1)
    (bug,) = eventually(lambda: real_fleet.events("process.bug"))
    eventually(lambda: len({*real_fleet.pids("worker").values()} - before) == 1)

    assert bug["where"] == "means"
    assert "Too many open files" in bug["error"]
    assert real_fleet.rows("SELECT DISTINCT attempt FROM effects") == [(1,)]
    assert [event["code"] for event in real_fleet.events("child.exited")] == [Exit.CRASHED]
    assert not real_fleet.events("job.struck")


def test_a_worker_without_descriptors_is_replaced_though_no_job_fails_of_it(real_fleet: RealFleet) -> None:
    real_fleet.up()
    before = real_fleet.wait_ready_workers(1)["0"]
    real_fleet.send(deaths.hoards.message("a"))

    eventually(lambda: real_fleet.pids("worker").get("0", before) != before)

    assert [bug["where"] for bug in real_fleet.events("process.bug")] == ["means"]
    assert not real_fleet.events("job.struck")


def test_a_bug_on_the_event_loop_ends_the_worker_in_order(real_fleet: RealFleet) -> None:
    real_fleet.up()
    before = real_fleet.wait_ready_workers(1)["0"]
    real_fleet.send(deaths.astray.message("a"))

    eventually(lambda: real_fleet.pids("worker").get("0", before) != before)

    bug = real_fleet.events("process.bug")[0]
    assert bug["where"] == "the event loop"
    assert "gone astray" in bug["error"]
    assert "_gone_astray" in bug["stack"]
    assert [event["code"] for event in real_fleet.events("child.exited")] == [Exit.CRASHED]
    real_fleet.send(book.note.message("b"))
    eventually(lambda: real_fleet.effects() == {"a": 1, "b": 1})
