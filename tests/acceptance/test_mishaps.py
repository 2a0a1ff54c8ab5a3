"""Errors that nobody catches, in each place where they can be: told in full, and the process ends in order."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.fleet.grip import FleetGrip, alive
from tests.fixtures.eventually import eventually
from workers.process.exits import Exit


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[FleetGrip]:
    """Give a fleet that is not started yet, and leave no process of it."""
    grip = FleetGrip(tmp_path)
    yield grip
    grip.clear()


@pytest.mark.parametrize(
    ("place", "where"),
    [("main", "the main thread"), ("thread", "the thread strayed"), ("unraisable", "what cannot raise")],
)
def test_a_bug_in_a_child_is_told_in_full_and_ends_that_child_in_order(
    fleet: FleetGrip, place: str, where: str
) -> None:
    fleet.start(forked=2)
    before = fleet.wait_ready()

    fleet.cue(f"bug-{place}-forked-0")
    fleet.wait_replaced("0", before["0"])

    bug = fleet.events("process.bug")[0]
    exited = eventually(lambda: fleet.events("child.exited"))[0]
    assert bug["where"] == where
    assert "ZeroDivisionError: escaped" in bug["error"]
    assert "in _raise" in bug["stack"]
    assert [job["job"] for job in bug["running"]] == ["job-0-0", "job-0-1"]
    assert (exited["child"], exited["code"]) == (before["0"], Exit.CRASHED)
    assert "escaped" in exited["error"]
    assert (fleet.folder / "draining-forked-0").exists() is (place != "main")
    assert fleet.pids()["1"] == before["1"]


def test_a_child_with_a_bug_that_does_not_end_is_killed(fleet: FleetGrip) -> None:
    fleet.start(forked=1, job="deaf", drain_s=0.2)
    before = fleet.wait_ready()["0"]

    fleet.cue("bug-thread-forked-0")
    fleet.wait_replaced("0", before)

    assert [event["child"] for event in fleet.events("child.killed")] == [before]


@pytest.mark.parametrize(
    ("cue", "where"), [("bug-supervisor", "the supervisor's loop"), ("bug-port", "the thread port")]
)
def test_a_bug_in_the_supervisor_drains_the_fleet(fleet: FleetGrip, cue: str, where: str) -> None:
    fleet.start(forked=2, job="waits")
    pids = fleet.wait_ready()

    fleet.cue(cue)
    eventually(lambda: all((fleet.folder / f"draining-forked-{post}").exists() for post in pids))
    fleet.cue("let-go")

    assert fleet.exit_code() == Exit.CRASHED
    assert fleet.events("process.bug")[0]["where"] == where
    assert len(fleet.events("child.drained")) == 2
    assert not [pid for pid in pids.values() if alive(pid)]


def test_a_bug_while_the_supervisor_drains_after_a_bug_ends_all_at_once(fleet: FleetGrip) -> None:
    fleet.start(forked=2, job="deaf", drain_s=600)
    pids = fleet.wait_ready()

    fleet.cue("bug-supervisor")
    eventually(lambda: len(fleet.events("process.bug")) == 1)
    fleet.cue("bug-supervisor")

    assert fleet.exit_code() == Exit.CRASHED
    assert len(fleet.events("process.bug")) == 2
    eventually(lambda: not [pid for pid in pids.values() if alive(pid)])


def test_quit_still_ends_a_fleet_that_drains_after_a_bug(fleet: FleetGrip) -> None:
    fleet.start(forked=1, job="deaf", drain_s=600)
    fleet.wait_ready()
    fleet.cue("bug-port")
    eventually(lambda: fleet.events("drain.started"))

    fleet.signal(signal.SIGQUIT)

    assert fleet.exit_code() == Exit.CRASHED
