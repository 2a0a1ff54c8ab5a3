"""Real supervisors, real children, real signals; no broker."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.acceptance.fleet.grip import ROOT, FleetGrip, alive
from tests.fixtures.eventually import eventually
from workers.cli import main
from workers.process.exits import Exit


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[FleetGrip]:
    """Give a fleet that is not started yet, and leave no process of it."""
    grip = FleetGrip(tmp_path)
    yield grip
    grip.clear()


def test_term_drains_and_leaves_nothing_behind(fleet: FleetGrip) -> None:
    fleet.start(forked=2, plain=1)
    pids = [*fleet.wait_ready().values(), *fleet.pids("plain").values(), *fleet.state()["nurseries"].values()]
    assert len(pids) == 4

    fleet.signal(signal.SIGTERM)

    assert fleet.exit_code() == Exit.DRAINED
    assert not [pid for pid in pids if alive(pid)]
    assert [path.name for path in fleet.folder.iterdir() if "draining" not in path.name] == ["supervisor.lock"]


def test_health_answers_for_the_fleet_that_runs_here_while_it_runs(
    fleet: FleetGrip, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SMENA_SUPERVISOR_METRICS_PORT", raising=False)  # the default one may be anybody's
    monkeypatch.setenv("SMENA_SUPERVISOR_STATE_DIR", str(fleet.folder))
    ask = CliRunner().invoke
    fleet.start()
    fleet.wait_ready()
    assert fleet.state()["cwd"] == str(ROOT)
    eventually(lambda: ask(main, ["health", "ready"]).output == "ok\n")
    fleet.signal(signal.SIGTERM)
    assert fleet.exit_code() == Exit.DRAINED
    told = ask(main, ["health", "ready"])
    assert (told.exit_code, f"no fleet of {fleet.folder} runs" in told.output) == (1, True)


def test_p07_term_to_the_whole_group_twice_is_one_drain(fleet: FleetGrip) -> None:
    fleet.start(job="waits")
    pids = fleet.wait_ready()

    for _ in range(2):
        for pid in (fleet.process.pid, *pids.values()):
            os.kill(pid, signal.SIGTERM)
        eventually(lambda: all((fleet.folder / f"draining-forked-{post}").exists() for post in pids))
        eventually(lambda: fleet.events("drain.started"))  # two signals that nobody has taken yet are one
    eventually(lambda: fleet.events("drain.goes_on"))
    assert all(alive(pid) for pid in pids.values())
    goes_on = fleet.events("drain.goes_on")[0]
    fleet.cue("let-go")

    assert fleet.exit_code() == Exit.DRAINED
    assert goes_on["running"] == 4
    assert 0 < goes_on["left_s"] <= 20
    assert len(fleet.events("drain.started")) == 1
    assert not fleet.events("child.killed")


def test_p19_term_to_the_whole_group_strikes_nobody_though_the_children_hear_it_long_before(fleet: FleetGrip) -> None:
    fleet.start(job="deaf", drain_s=600)
    pids = fleet.wait_ready()

    for pid in pids.values():
        os.kill(pid, signal.SIGTERM)
    eventually(lambda: all((fleet.folder / f"draining-forked-{post}").exists() for post in pids))
    fleet.signal(signal.SIGTERM)
    eventually(lambda: fleet.events("drain.started"))
    fleet.signal(signal.SIGQUIT)

    assert fleet.exit_code() == Exit.ENDED_NOW
    assert not fleet.events("job.struck")


def test_p19_whoever_is_found_dead_after_a_signal_to_the_whole_group_ended_with_the_fleet(fleet: FleetGrip) -> None:
    fleet.start(forked=2, job="waits", drain_s=0)
    pids = fleet.wait_ready()

    os.kill(fleet.process.pid, signal.SIGSTOP)
    for pid in (*pids.values(), fleet.process.pid):
        os.kill(pid, signal.SIGTERM)
    eventually(lambda: not [pid for pid in pids.values() if alive(pid)])
    os.kill(fleet.process.pid, signal.SIGCONT)

    assert fleet.exit_code() == Exit.DRAIN_OVERRAN
    assert not fleet.events("job.struck")


def test_a_child_that_outlives_its_drain_is_killed(fleet: FleetGrip) -> None:
    fleet.start(job="deaf", drain_s=0.2)
    pids = fleet.wait_ready()

    fleet.signal(signal.SIGTERM)

    assert fleet.exit_code() == Exit.DRAIN_OVERRAN
    assert len(fleet.events("child.killed")) == 2
    assert not [pid for pid in pids.values() if alive(pid)]


def test_a_drain_that_interrupts_jobs_says_so_in_its_exit_code(fleet: FleetGrip) -> None:
    fleet.start(job="waits", drain_s=0.2)
    fleet.wait_ready()

    fleet.signal(signal.SIGTERM)

    assert fleet.exit_code() == Exit.DRAIN_OVERRAN
    assert not fleet.events("child.killed")


def test_quit_ends_all_at_once(fleet: FleetGrip) -> None:
    fleet.start(job="deaf", drain_s=600)
    pids = fleet.wait_ready()

    fleet.signal(signal.SIGQUIT)

    assert fleet.exit_code() == Exit.ENDED_NOW
    assert not [pid for pid in pids.values() if alive(pid)]


@pytest.mark.parametrize("plan", ["boots_slowly", "preloads_slowly"])
def test_a_signal_during_boot_acts(fleet: FleetGrip, plan: str) -> None:
    fleet.start(forked=1, drain_s=600, boots_slowly=plan == "boots_slowly", preloads_slowly=plan == "preloads_slowly")
    eventually(lambda: fleet.pids() or (plan == "preloads_slowly" and fleet.state().get("nurseries")))

    fleet.signal(signal.SIGTERM)

    assert fleet.exit_code() == Exit.DRAINED


def test_p11_children_and_their_programs_die_with_a_killed_supervisor(fleet: FleetGrip) -> None:
    fleet.start(forked=2, plain=1, subprocess=True)
    pids = [*fleet.wait_ready().values(), *fleet.pids("plain").values(), *fleet.state()["nurseries"].values()]
    programs = [pid for post in fleet.pids() for pid in fleet.programs(post)]

    fleet.signal(signal.SIGKILL)

    eventually(lambda: not [pid for pid in (*pids, *programs) if alive(pid)])


def test_p11_a_deaf_child_dies_with_a_killed_supervisor(fleet: FleetGrip) -> None:
    fleet.start(forked=1, plain=1, holds_interpreter=True)
    pids = [*fleet.wait_ready().values(), *fleet.pids("plain").values()]

    fleet.signal(signal.SIGKILL)

    eventually(lambda: not [pid for pid in pids if alive(pid)])


def test_p11_a_killed_childs_programs_die_with_it(fleet: FleetGrip) -> None:
    fleet.start(forked=1, subprocess=True)
    pid = fleet.wait_ready()["0"]
    programs = fleet.programs("0")

    os.kill(pid, signal.SIGKILL)
    fleet.wait_replaced("0", pid)

    assert len(programs) == 2
    assert not [program for program in programs if alive(program)]


def test_p22_only_the_dead_child_is_replaced(fleet: FleetGrip) -> None:
    fleet.start(forked=3)
    pids = fleet.wait_ready()

    os.kill(pids["1"], signal.SIGKILL)
    fleet.wait_replaced("1", pids["1"])

    assert {post: fleet.pids()[post] for post in ("0", "2")} == {post: pids[post] for post in ("0", "2")}
    exited = fleet.events("child.exited")
    assert [(event["signal"], event["child"]) for event in exited] == [("SIGKILL", pids["1"])]
    assert [job["job"] for job in exited[0]["running"]] == ["job-1-0", "job-1-1"]
    assert exited[0]["blamed"] == []


def test_p22_a_child_that_dies_of_a_real_time_signal_is_replaced_as_any_other(fleet: FleetGrip) -> None:
    fleet.start(forked=2)
    pids = fleet.wait_ready()

    os.kill(pids["1"], signal.SIGRTMIN + 6)
    fleet.wait_replaced("1", pids["1"])

    assert fleet.pids()["0"] == pids["0"]
    exited = fleet.events("child.exited")
    assert [(event["signal"], event["child"]) for event in exited] == [("SIGRTMIN+6", pids["1"])]


def test_p22_a_child_whose_job_exits_with_the_code_of_a_drain_has_not_drained(fleet: FleetGrip) -> None:
    fleet.start(forked=1)
    pid = fleet.wait_ready()["0"]

    fleet.cue("exit-forked-0")
    fleet.wait_replaced("0", pid)

    assert [(event["code"], event["jobs"]) for event in fleet.events("child.exited")] == [(0, 2)]
    assert not fleet.events("child.drained")


def test_p22_a_job_that_exits_its_process_before_that_is_ready_is_told_as_what_it_is(fleet: FleetGrip) -> None:
    fleet.start(forked=1, says_nothing=True)
    pid = eventually(fleet.pids)["0"]

    (fleet.folder / "exit-forked-0").write_text("0")
    exited = eventually(lambda: fleet.events("child.exited"))

    assert [(event["child"], event["code"], event["jobs"]) for event in exited] == [(pid, 0, 2)]
    assert [event["job"] for event in fleet.events("job.struck")] == ["job-0-0", "job-0-1"]
    assert not fleet.events("child.drained")


def test_p22_a_job_that_exits_as_misconfigured_before_its_process_is_ready_refuses_nothing(fleet: FleetGrip) -> None:
    fleet.start(forked=1, says_nothing=True)
    pid = eventually(fleet.pids)["0"]

    (fleet.folder / "exit-forked-0").write_text(str(Exit.MISCONFIGURED.value))
    eventually(lambda: fleet.pids().get("0", pid) != pid)

    assert [event["code"] for event in fleet.events("child.exited")] == [Exit.MISCONFIGURED]
    assert not fleet.events("process.stopping")


def test_p28_a_job_that_holds_its_process_before_that_is_ready_costs_it_its_life(fleet: FleetGrip) -> None:
    fleet.start(forked=1, says_nothing=True, holds_interpreter=True, settings={"amqp_heartbeat_s": 4})
    pid = eventually(fleet.pids)["0"]

    killed = eventually(lambda: fleet.events("child.killed"))[0]
    eventually(lambda: fleet.events("job.struck")[1:])
    struck = fleet.events("job.struck")

    assert killed["child"] == pid
    assert [(event["job"], event["why"]) for event in struck[:2]] == [
        ("job-0-0", "suspected"),
        ("job-0-1", "suspected"),
    ]


def test_a_child_that_is_drained_alone_is_replaced(fleet: FleetGrip) -> None:
    fleet.start(forked=1)
    pid = fleet.wait_ready()["0"]

    os.kill(pid, signal.SIGTERM)
    fleet.wait_replaced("0", pid)

    assert [event["child"] for event in fleet.events("child.drained")] == [pid]
    assert not fleet.events("child.exited")


def test_the_job_whose_thread_crashed_is_blamed(fleet: FleetGrip) -> None:
    fleet.start(forked=1)
    pid = fleet.wait_ready()["0"]

    fleet.cue("poison-forked-0")
    exited = eventually(lambda: fleet.events("child.exited"))[0]

    assert exited["child"] == pid
    assert exited["signal"] == "SIGSEGV"
    assert exited["fault"] == "Segmentation fault"
    assert "pretender.py" in exited["stack"]
    assert exited["blamed"] == ["job-0-1"]


def test_the_death_of_a_nursery_touches_no_worker(fleet: FleetGrip) -> None:
    fleet.start(forked=2)
    pids = fleet.wait_ready()
    nursery = fleet.state()["nurseries"]["forked"]

    os.kill(nursery, signal.SIGKILL)
    eventually(lambda: fleet.state()["nurseries"].get("forked", nursery) != nursery)

    assert fleet.pids() == pids
    assert all(alive(pid) for pid in pids.values())
    os.kill(pids["0"], signal.SIGKILL)
    fleet.wait_replaced("0", pids["0"])
    assert fleet.pids()["1"] == pids["1"]


@pytest.mark.parametrize(("forked", "plain"), [(2, 0), (0, 2)])
def test_a_misconfigured_role_is_refused_once(fleet: FleetGrip, forked: int, plain: int) -> None:
    fleet.start(forked, plain, refuses="run")

    assert fleet.exit_code() == Exit.MISCONFIGURED
    assert (
        len(
            re.findall(
                r"^smena: The process cannot run as it is configured: the pretender has no queue",
                fleet.errors(),
                re.MULTILINE,
            )
        )
        == 1
    )


def test_a_book_that_cannot_be_loaded_is_refused_once(fleet: FleetGrip) -> None:
    fleet.start(forked=2, refuses="preload")

    assert fleet.exit_code() == Exit.MISCONFIGURED
    assert (
        len(
            re.findall(
                r"^smena: The process cannot run as it is configured: the pretender has no book",
                fleet.errors(),
                re.MULTILINE,
            )
        )
        == 1
    )


def test_a_role_that_keeps_failing_backs_off_and_is_named(fleet: FleetGrip) -> None:
    fleet.start(forked=0, plain=1, fails=True)

    looping = eventually(lambda: fleet.events("child.looping"))[0]

    assert looping["post"] == "plain-0"
    assert "the pretender fails" in looping["error"]
    assert fleet.get("/ready") == (503, "plain-0: dies again and again\n")


def test_a_child_without_room_for_its_files_says_so_and_is_tried_again(fleet: FleetGrip) -> None:
    fleet.start(forked=2)
    pids = fleet.wait_ready()
    fleet.cue("no-disk")

    os.kill(pids["0"], signal.SIGKILL)
    refused = eventually(lambda: fleet.events("child.exited")[1:])[0]
    (fleet.folder / "no-disk").unlink()

    assert refused["error"] == f"no file of a child can be made in {fleet.folder}: File too large"
    assert not fleet.events("process.bug")
    fleet.wait_replaced("0", pids["0"])
    assert fleet.pids()["1"] == pids["1"]


def test_children_start_again_after_a_cleaner_removed_the_folder(fleet: FleetGrip, tmp_path: Path) -> None:
    fleet.start(forked=2)
    pids = fleet.wait_ready()

    fleet.folder.rename(tmp_path / "removed")  # at one stroke, or it is made again while it is being removed
    eventually(lambda: fleet.pids() == pids)
    os.kill(pids["0"], signal.SIGKILL)
    fleet.wait_replaced("0", pids["0"])

    assert fleet.pids()["1"] == pids["1"]
    assert [remade["folder"] for remade in fleet.events("folder.remade")] == [str(fleet.folder)]


def test_the_port_serves_metrics_of_the_living_and_the_dead(fleet: FleetGrip) -> None:
    fleet.start(forked=2)
    pid = fleet.wait_ready()["0"]
    done = 'smena_jobs_total{actor="pretend.work",outcome="done"} '
    eventually(lambda: f"{done}2.0" in fleet.get("/metrics")[1])

    os.kill(pid, signal.SIGKILL)
    fleet.wait_replaced("0", pid)

    eventually(lambda: f"{done}3.0" in fleet.get("/metrics")[1])
    assert 'smena_children{role="forked",state="ready"} 2.0' in fleet.get("/metrics")[1]
    assert fleet.get("/live") == (200, "ok\n")
    assert not list(fleet.folder.glob(f"{pid}.*"))


def test_a_fleet_that_cannot_reach_the_broker_is_not_ready(fleet: FleetGrip) -> None:
    fleet.start(forked=1, unready=True)
    eventually(lambda: fleet.pids())

    eventually(lambda: fleet.get("/ready") == (503, "forked-0: cannot reach broker\n"))


def test_a_second_supervisor_is_kept_out_of_the_state_folder(fleet: FleetGrip, tmp_path: Path) -> None:
    fleet.start(forked=1)
    fleet.wait_ready()
    second = FleetGrip(tmp_path / "second")
    (tmp_path / "second").mkdir()
    second.folder = fleet.folder
    second.start(forked=1)

    try:
        assert second.exit_code() == Exit.MISCONFIGURED
        assert "another supervisor" in second.errors()
        assert fleet.state()["state"] == "ready"
    finally:
        second.clear()
