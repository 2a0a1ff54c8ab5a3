"""Time limits of real workers: what cannot be interrupted dies with its process, and nobody else pays."""

import signal
from typing import Any

import pytest

from smena.book import Actor
from tests.acceptance.fleet.grip import alive
from tests.acceptance.fleet.real import RealFleet
from tests.acceptance.jobs import book, deaths, late
from tests.fixtures.eventually import eventually
from workers.process.exits import Exit


def first(fleet: RealFleet, key: str) -> int:
    """Return the process of the job's first run, once it runs."""
    mark = fleet.folder / f"first-{key}"
    eventually(lambda: mark.exists() and mark.read_text(encoding="ascii"))
    return int(mark.read_text(encoding="ascii"))


@pytest.mark.parametrize("actor", [late.oversleep, late.aoversleep])
def test_p26_p28_a_job_past_its_hard_limit_costs_its_process_and_nobody_else_anything(
    real_fleet: RealFleet, actor: Actor[[str], Any, ...]
) -> None:
    real_fleet.up(worker_threads=2)
    before = real_fleet.wait_ready_workers(1)["0"]
    stuck = actor.message("stuck")
    real_fleet.send(book.hold.message("neighbour"), book.ahold.message("aneighbour"))
    eventually(lambda: all((real_fleet.folder / f"running-{key}").exists() for key in ("neighbour", "aneighbour")))
    real_fleet.send(stuck)
    assert first(real_fleet, "stuck") == before
    eventually(lambda: real_fleet.events("child.relieved"))
    [condemned] = real_fleet.events("child.condemned")
    assert (condemned["child"], condemned["job"], condemned["why"]) == (before, stuck.id, "hard_limit")
    assert alive(before), "the neighbours may finish"
    real_fleet.send(book.note.message("unstarted"))
    eventually(lambda: real_fleet.effects()["unstarted"] == 1)
    assert not (real_fleet.folder / "second-stuck").exists(), "no retry while the first may run"
    (real_fleet.folder / "let-go").touch()
    eventually(lambda: real_fleet.effects()["stuck"] == 1)
    assert real_fleet.effects() == {"neighbour": 1, "aneighbour": 1, "unstarted": 1, "stuck": 1}
    assert not alive(before)
    assert (real_fleet.folder / "second-stuck").read_text() == "after the first"
    rows = real_fleet.rows("SELECT key, attempt, pid FROM effects WHERE key LIKE '%neighbour'")
    assert sorted(rows) == [("aneighbour", 1, before), ("neighbour", 1, before)]
    assert real_fleet.rows("SELECT attempt FROM effects WHERE key = 'stuck'") == [(2,)], "its attempt is spent"
    assert [(event["job"], event["attempt"]) for event in real_fleet.events("job.retried")] == [(stuck.id, 1)]
    assert real_fleet.rows("SELECT job_id, why FROM smena.strikes") == [(stuck.id, "hard_limit")]
    [ended] = [event for event in real_fleet.events("child.exited") if event["child"] == before]
    assert [job["job"] for job in ended["running"]] == [stuck.id]
    assert real_fleet.rows("SELECT attempt FROM effects WHERE key = 'stuck'") == [(2,)], "its attempt is over"


def test_p28_a_job_that_overruns_the_drain_keeps_its_message_until_its_process_is_dead(real_fleet: RealFleet) -> None:
    real_fleet.up(processes=2, worker_drain_s=0.5, worker_time_limit_s=0)
    real_fleet.wait_ready_workers(2)
    real_fleet.send(late.overrun.message("stuck"))
    pid = first(real_fleet, "stuck")
    real_fleet.signal(signal.SIGHUP)
    eventually(lambda: real_fleet.effects() == {"stuck": 1}, timeout_s=90)
    assert not alive(pid)
    assert (real_fleet.folder / "second-stuck").read_text() == "after the first"
    assert real_fleet.rows("SELECT attempt FROM effects") == [(1,)]


def test_p26_a_job_that_waits_for_postgresql_or_a_cpu_step_is_ended_there_too_and_tried_again(
    real_fleet: RealFleet,
) -> None:
    real_fleet.up(worker_threads=5)
    [worker] = real_fleet.wait_ready_workers(1).values()
    actors: list[Actor[[str], Any, ...]] = [
        late.slow_statement, late.slow_transaction, late.slow_once, late.aslow_statement, late.atslow_transaction,
        late.slow_step,
    ]  # fmt: skip
    real_fleet.send(*(actor.message(actor.name) for actor in actors))
    wanted = {actor.name: 1 for actor in actors}
    eventually(lambda: real_fleet.effects() == wanted)
    assert {attempt for (attempt,) in real_fleet.rows("SELECT attempt FROM effects")} == {2}
    sleeping = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT pg_sleep(600)%'"
    assert real_fleet.rows(sleeping) == [(0,)]
    assert list(real_fleet.wait_ready_workers(1).values()) == [worker]
    assert real_fleet.events("child.condemned") == []
    statements = {actor.name for actor in actors} - {late.slow_step.name}
    assert {event["actor"] for event in real_fleet.events("job.time_up")} >= statements, "not a timeout of the server's"


def test_p13_a_limit_not_below_the_brokers_consumer_timeout_is_refused_at_boot_with_the_way_out(
    real_fleet: RealFleet,
) -> None:
    real_fleet.up(amqp_consumer_timeout_s=60, worker_time_limit_s=40, worker_time_limit_grace_s=20)
    assert real_fleet.exit_code() == Exit.MISCONFIGURED
    told = real_fleet.errors()
    assert "may run 60 s" in told
    assert "says the setting amqp.consumer_timeout_s" in told
    assert "lower the limit" in told


def test_p26_p28_a_job_that_holds_the_interpreter_dies_with_its_process_alone_to_blame(real_fleet: RealFleet) -> None:
    real_fleet.up(amqp_heartbeat_s=4)
    before = real_fleet.wait_ready_workers(1)["0"]
    real_fleet.send(book.hold.message("neighbour"))
    eventually((real_fleet.folder / "running-neighbour").exists)
    (real_fleet.folder / "running-neighbour").unlink()
    held = late.backtrack.message("held")
    real_fleet.send(held)
    assert first(real_fleet, "held") == before
    eventually(lambda: real_fleet.events("child.condemned"))
    [condemned] = real_fleet.events("child.condemned")
    assert (condemned["job"], condemned["why"]) == (held.id, "held_interpreter")
    eventually((real_fleet.folder / "running-neighbour").exists)
    (real_fleet.folder / "let-go").touch()
    eventually(lambda: real_fleet.effects() == {"neighbour": 1, "held": 1})
    assert (real_fleet.folder / "second-held").read_text() == "after the first"
    assert sorted(real_fleet.rows("SELECT key, attempt FROM effects")) == [("held", 2), ("neighbour", 1)]


def test_p26_p28_a_suspect_that_hangs_and_a_coroutine_that_holds_the_loop_cost_cells_and_no_neighbour_anything(
    real_fleet: RealFleet,
) -> None:
    real_fleet.up(amqp_heartbeat_s=4)
    real_fleet.wait_ready_workers(1)
    hangs = deaths.dies_then_hangs.message("hangs")
    real_fleet.send(hangs)
    eventually(lambda: real_fleet.effects() == {"hangs": 1})
    assert [(event["job"], event["attempt"]) for event in real_fleet.events("job.retried")] == [(hangs.id, 1)]
    assert real_fleet.events("child.condemned") == [], "the worker that held its message lives"

    [worker] = real_fleet.wait_ready_workers(1).values()
    neighbours = [book.ahold.message(f"neighbour{number}") for number in range(3)]
    real_fleet.send(*neighbours)
    eventually(lambda: len(list(real_fleet.folder.glob("running-*"))) == len(neighbours))
    real_fleet.send(holds := late.abacktrack.message("holds"))
    eventually(lambda: not alive(worker))
    eventually(lambda: real_fleet.effects()["holds"] == 1)
    (real_fleet.folder / "let-go").touch()
    eventually(lambda: len(real_fleet.effects()) == 2 + len(neighbours))
    assert set(real_fleet.effects().values()) == {1}
    assert set(real_fleet.rows("SELECT attempt FROM effects WHERE key LIKE 'neighbour%'")) == {(1,)}
    assert real_fleet.rows("SELECT attempt FROM effects WHERE key = 'holds'") == [(2,)]
    assert len(list(real_fleet.folder.glob("held-*"))) <= 1 + 2, "found in halves: 4 shared the loop"
    assert real_fleet.events("job.crashed") == []
    assert [event["job"] for event in real_fleet.events("job.retried")] == [hangs.id, holds.id]
