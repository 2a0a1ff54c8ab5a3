"""Fleets that are changed while they work: real supervisors, real children, real signals; no broker."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.fleet.grip import FleetGrip, alive
from tests.fixtures.eventually import PATIENCE_S, eventually
from workers.process.exits import Exit


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[FleetGrip]:
    """Give a fleet that is not started yet, and leave no process of it."""
    grip = FleetGrip(tmp_path)
    yield grip
    grip.clear()


def test_a_reload_puts_new_code_at_every_post_and_the_new_child_is_ready_first(fleet: FleetGrip) -> None:
    fleet.load("one")
    fleet.start(forked=2, plain=1)
    before = fleet.wait_ready()
    plain, nursery = fleet.pids("plain")["0"], fleet.state()["nurseries"]["forked"]

    fleet.load("two")
    fleet.signal(signal.SIGHUP)

    finished = eventually(lambda: fleet.events("reload.finished"))[0]
    after = fleet.pids()
    assert finished["relieved"] == 3
    assert {fleet.ran(pid) for pid in after.values()} == {"two"}
    assert not {*before.values(), plain} & {*after.values(), fleet.pids("plain")["0"]}
    assert not [pid for pid in (*before.values(), plain) if alive(pid)]
    eventually(lambda: not alive(nursery))
    assert 'smena_children_replaced_total{role="forked"} 2.0' in fleet.get("/metrics")[1]
    assert fleet.order("child.relieved", "child.drained") == ["child.relieved", "child.drained"] * 3
    assert fleet.get("/ready")[0] == 200
    assert not fleet.events("child.exited")
    assert not fleet.events("child.killed")
    os.kill(after["0"], signal.SIGKILL)
    assert fleet.ran(fleet.wait_replaced("0", after["0"])) == "two"


def test_an_old_child_keeps_its_jobs_while_its_relief_works(fleet: FleetGrip) -> None:
    fleet.start(forked=2, job="waits")
    before = fleet.wait_ready()

    fleet.signal(signal.SIGHUP)
    eventually(lambda: fleet.state()["leaving"] == [before["0"]])

    assert fleet.pids()["0"] != before["0"]
    assert fleet.pids()["1"] == before["1"]
    assert alive(before["0"])
    assert fleet.get("/ready")[0] == 200
    fleet.cue("let-go")
    eventually(lambda: fleet.events("reload.finished"))
    eventually(lambda: not fleet.state()["leaving"])


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("broken", "the new code is broken"),
        ("fails", "the pretender fails"),
        ("boots for ever", "not ready within 5 s"),
    ],
)
def test_a_reload_stops_at_code_that_does_not_become_ready_and_the_old_stay(
    fleet: FleetGrip, code: str, says: str
) -> None:
    fleet.load("one")
    fleet.start(forked=2, settings={"supervisor_ready_s": 60 if code != "boots for ever" else 5})
    before = fleet.wait_ready()
    nursery = fleet.state()["nurseries"]["forked"]

    fleet.load(code)
    fleet.signal(signal.SIGHUP)

    stopped = eventually(lambda: fleet.events("reload.stopped"))[0]
    assert says in stopped["why"]
    assert (stopped["relieved"], stopped["left"]) == (0, 2)
    assert fleet.pids() == before
    assert all(alive(pid) for pid in before.values())
    assert fleet.state()["nurseries"]["forked"] == nursery
    os.kill(before["0"], signal.SIGKILL)
    assert fleet.ran(fleet.wait_replaced("0", before["0"])) == "one"
    fleet.signal(signal.SIGTERM)
    assert fleet.exit_code() == Exit.DRAINED


def test_a_reload_heals_a_fleet_whose_code_cannot_run(fleet: FleetGrip) -> None:
    fleet.load("fails")
    fleet.start(forked=1)
    eventually(lambda: fleet.events("child.looping"))

    fleet.load("two")
    fleet.signal(signal.SIGHUP)

    assert {fleet.ran(pid) for pid in fleet.wait_ready().values()} == {"two"}


def test_a_drain_ends_a_reload(fleet: FleetGrip) -> None:
    fleet.load("one")
    fleet.start(forked=2)
    before = fleet.wait_ready()
    fleet.load("boots for ever")
    fleet.signal(signal.SIGHUP)
    eventually(lambda: len(list(fleet.folder.glob("ran-*"))) == 3)

    fleet.signal(signal.SIGTERM)

    assert fleet.exit_code() == Exit.DRAINED
    pids = [int(path.name.removeprefix("ran-")) for path in fleet.folder.glob("ran-*")]
    assert not [pid for pid in (*before.values(), *pids) if alive(pid)]


def test_an_old_child_that_does_not_end_in_time_is_killed(fleet: FleetGrip) -> None:
    fleet.start(forked=1, job="deaf", drain_s=0.2)
    before = fleet.wait_ready()["0"]

    fleet.signal(signal.SIGHUP)
    eventually(lambda: fleet.events("reload.finished"))

    assert [event["child"] for event in fleet.events("child.killed")] == [before]
    assert fleet.get("/ready")[0] == 200


def test_ttin_and_ttou_change_the_number_of_processes_within_bounds(fleet: FleetGrip) -> None:
    fleet.start(forked=1, plain=1, settings={"worker_processes_max": 2})
    fleet.wait_ready()

    fleet.signal(signal.SIGTTIN)
    eventually(lambda: len(fleet.pids()) == 2 and fleet.get("/ready")[0] == 200)
    fleet.signal(signal.SIGTTIN)
    eventually(lambda: len(fleet.events("fleet.scaled")) == 2)
    two = fleet.pids()
    fleet.signal(signal.SIGTTOU)
    eventually(lambda: not alive(two["1"]))
    fleet.signal(signal.SIGTTOU)
    eventually(lambda: len(fleet.events("fleet.scaled")) == 4)

    assert [(event["wanted"], event["limit"]) for event in fleet.events("fleet.scaled")] == [
        (2, False),
        (2, True),
        (1, False),
        (1, True),
    ]
    assert fleet.pids() == {"0": two["0"]}
    assert len(fleet.pids("plain")) == 1
    assert fleet.get("/ready") == (200, "ok\n")
    assert not fleet.events("child.exited")


def test_who_is_to_relieve_another_stands_back_from_the_processor_until_it_is_ready(fleet: FleetGrip) -> None:
    fleet.start(forked=1, shows_nice=True)
    first = fleet.wait_ready()["0"]
    nurseries = {path.name for path in fleet.folder.glob("loads-*")}
    fleet.signal(signal.SIGHUP)
    eventually(lambda: fleet.events("reload.finished"))
    second = fleet.pids()["0"]
    [fresh] = [path for path in fleet.folder.glob("loads-*") if path.name not in nurseries]
    os.kill(second, signal.SIGKILL)
    third = fleet.wait_replaced("0", second)

    usual, ready = stood(fleet, first)
    assert usual == ready
    assert stood(fleet, second) == (fresh.read_text(), usual)
    if may_step_forward():
        assert fresh.read_text() != usual
    assert stood(fleet, third) == (usual, usual)  # nobody is at that post: it is needed now


def stood(fleet: FleetGrip, pid: int) -> tuple[str, ...]:
    """Return how a child stood in line while it booted, and when it was ready."""
    file = fleet.folder / f"nice-{pid}"
    return tuple(eventually(lambda: file.read_text().split() if file.exists() else []))


def may_step_forward() -> bool:
    """Say whether this machine lets us stand back for a while: as root, or where sessions are groups."""
    return os.geteuid() == 0 or Path("/proc/self/autogroup").exists()


def test_tstp_pauses_all_children_and_those_to_come_until_cont(fleet: FleetGrip) -> None:
    fleet.start(forked=2)
    before = fleet.wait_ready()

    fleet.signal(signal.SIGTSTP)
    eventually(lambda: fleet.paused() == {*before.values()})
    eventually(lambda: fleet.state()["paused"] is True)
    eventually(lambda: fleet.get("/ready") == (503, "paused\n"))
    assert fleet.get("/live")[0] == 200
    os.kill(before["0"], signal.SIGKILL)
    eventually(lambda: fleet.pids().get("0", before["0"]) in fleet.paused() - {before["0"]})

    fleet.signal(signal.SIGCONT)

    eventually(lambda: not fleet.paused() - {before["0"]})
    eventually(lambda: fleet.get("/ready")[0] == 200)
    assert len(fleet.events("fleet.paused")) == len(fleet.events("fleet.resumed")) == 1


def test_a_terminals_own_stop_and_hangup_are_told_from_those_of_a_process(fleet: FleetGrip) -> None:
    terminal = fleet.start_at_terminal(forked=1)
    fleet.wait_ready()

    os.write(terminal, b"\x1a")  # Ctrl-Z
    fleet.signal(signal.SIGTTIN)
    eventually(lambda: fleet.events("fleet.scaled"))
    assert not fleet.events("fleet.paused")
    os.close(terminal)

    assert fleet.exit_code() == Exit.DRAINED
    assert [event["why"] for event in fleet.events("process.stopping")] == ["SIGHUP"]
    assert not fleet.events("reload.started")


def test_p29_children_are_recycled_by_jobs_one_at_a_time_the_new_one_first(fleet: FleetGrip) -> None:
    fleet.start(forked=2, jobs_each_look=5, settings={"worker_max_jobs": 20, "telemetry_tally_s": 0.1})
    before = fleet.wait_ready()

    eventually(lambda: len(fleet.events("child.relieved")) >= 4)
    fleet.cue("enough")

    assert fleet.get("/ready")[0] == 200
    relieved, drained = fleet.events("child.relieved"), fleet.events("child.drained")
    assert {event["relieves"] for event in relieved[:2]} == {*before.values()}
    assert all("jobs done" in event["why"] for event in relieved)
    turns = fleet.order("child.relieved", "child.drained")
    assert turns == (["child.relieved", "child.drained"] * len(turns))[: len(turns)]
    assert len(drained) >= len(relieved) - 1
    assert not fleet.events("child.exited")
    assert not fleet.events("relief.failed")


def test_p29_a_child_that_holds_too_much_memory_is_recycled(fleet: FleetGrip) -> None:
    fleet.start(forked=2, hogs_mib=300, settings={"worker_max_memory_mib": 250})
    before = fleet.wait_ready()

    relieved = eventually(lambda: fleet.events("child.relieved"))
    eventually(lambda: not alive(before["0"]))

    assert [event["relieves"] for event in relieved] == [before["0"]]
    assert "MiB held" in relieved[0]["why"]
    assert fleet.pids()["1"] == before["1"]


def test_p29_a_recycling_that_comes_to_nothing_leaves_the_old_child_at_work(fleet: FleetGrip) -> None:
    fleet.load("one")
    fleet.start(forked=1, settings={"worker_max_age_s": 2, "supervisor_ready_s": 5})
    before = fleet.wait_ready()
    fleet.cue("no-more")

    failed = eventually(lambda: fleet.events("relief.failed"))[0]

    assert failed["child"] == before["0"]
    assert "no room for another" in failed["error"]
    assert fleet.pids() == before
    assert fleet.get("/ready")[0] == 200


def test_the_peak_memory_of_a_killed_child_is_told(fleet: FleetGrip) -> None:
    fleet.start(forked=1, hogs_mib=200)
    pid = fleet.wait_ready()["0"]
    eventually((fleet.folder / "hoarded").exists)

    def peak_is_known() -> bool:
        fleet.signal(signal.SIGUSR1)
        return any(event["peak_mib"] > 200 for event in fleet.events("child.status"))

    eventually(peak_is_known)
    os.kill(pid, signal.SIGKILL)

    assert eventually(lambda: fleet.events("child.exited"))[0]["peak_mib"] > 200


def test_usr1_writes_status_and_stacks_of_all_also_of_one_that_holds_its_interpreter(fleet: FleetGrip) -> None:
    fleet.start(forked=1, plain=1, holds_interpreter=True, settings={"amqp_heartbeat_s": 600})
    pids = {"forked-0": fleet.wait_ready()["0"], "plain-0": fleet.pids("plain")["0"]}

    fleet.signal(signal.SIGUSR1)
    eventually(lambda: {event["post"] for event in fleet.events("process.stack")} == {"supervisor", *pids})

    assert {event["post"]: event["child"] for event in fleet.events("child.status")} == pids
    assert fleet.events("fleet.status")[0]["running"] == 4
    held = [event for event in fleet.events("process.stack") if event["child"] == pids["forked-0"]]
    assert any("pretender.py" in event["stack"] and "in run" in event["stack"] for event in held)
    assert {event["job"] for event in held} >= {"job-0-0", "job-0-1"}
    assert any("arbiter.py" in event["stack"] for event in fleet.events("process.stack") if event["child"] is None)
    assert fleet.pids()["0"] == pids["forked-0"]


def test_a_service_manager_follows_the_fleet_through_its_life(fleet: FleetGrip, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_S)
        fleet.start(forked=1, environ={"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "1000000"})
        heard: list[str] = []

        def hears(line: str) -> None:
            while line not in heard:
                heard.extend(manager.recv(4096).decode().splitlines())

        hears("READY=1")
        hears("WATCHDOG=1")
        fleet.signal(signal.SIGHUP)
        hears("RELOADING=1")
        heard.clear()
        hears("READY=1")
        fleet.signal(signal.SIGTERM)
        hears("STOPPING=1")
    assert fleet.exit_code() == Exit.DRAINED
