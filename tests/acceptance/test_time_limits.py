"""Time limits of real workers: what cannot be interrupted dies with its process, and nobody else pays."""

import signal

import pytest

from smena.book import Actor
from tests.acceptance.fleet.grip import alive
from tests.acceptance.fleet.real import RealFleet
from tests.acceptance.jobs import book
from tests.fixtures.eventually import eventually


def first(fleet: RealFleet, key: str) -> int:
    """Return the process of the job's first run, once it runs."""
    mark = fleet.folder / f"first-{key}"
    eventually(lambda: mark.exists() and mark.read_text(encoding="ascii"))
    return int(mark.read_text(encoding="ascii"))


@pytest.mark.parametrize("actor", [book.oversleep, book.aoversleep])
def test_p26_p28_a_job_past_its_hard_limit_costs_its_process_and_nobody_else_anything(
    real_fleet: RealFleet, actor: Actor[[str], object]
) -> None:
    real_fleet.up(worker_threads=2)
    before = real_fleet.wait_ready_workers(1)["0"]
    stuck = actor.message("stuck")
    real_fleet.send(book.hold.message("neighbour"), book.ahold.message("aneighbour"))
    eventually(lambda: all((real_fleet.folder / f"running-{key}").exists() for key in ("neighbour", "aneighbour")))
    real_fleet.send(stuck)
    assert first(real_fleet, "stuck") == before
    eventually(lambda: real_fleet.events("child.relieved"), timeout_s=30)
    [condemned] = real_fleet.events("child.condemned")
    assert (condemned["child"], condemned["job"], condemned["why"]) == (before, stuck.id, "hard_limit")
    assert alive(before), "the neighbours may finish"
    real_fleet.send(book.note.message("unstarted"))
    eventually(lambda: real_fleet.effects()["unstarted"] == 1)
    assert not (real_fleet.folder / "second-stuck").exists(), "no retry while the first may run"
    (real_fleet.folder / "let-go").touch()
    eventually(lambda: real_fleet.effects()["stuck"] == 1, timeout_s=30)
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


def test_p28_a_job_that_overruns_the_drain_keeps_its_message_until_its_process_is_dead(real_fleet: RealFleet) -> None:
    real_fleet.up(processes=2, worker_drain_s=0.5, worker_time_limit_s=0)
    real_fleet.wait_ready_workers(2)
    real_fleet.send(book.overrun.message("stuck"))
    pid = first(real_fleet, "stuck")
    real_fleet.signal(signal.SIGHUP)
    eventually(lambda: real_fleet.effects() == {"stuck": 1}, timeout_s=30)
    assert not alive(pid)
    assert (real_fleet.folder / "second-stuck").read_text() == "after the first"
    assert real_fleet.rows("SELECT attempt FROM effects") == [(1,)]
