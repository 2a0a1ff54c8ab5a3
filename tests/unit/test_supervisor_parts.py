"""What the supervisor decides, without processes: backoff, figures, views, evidence, files."""

import json
import os
import shutil
import signal
import socket
import threading
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from smena.backoff import Backoff
from smena.clock import SYSTEM, Deadline, MovedClock
from smena.errors import Misconfigured
from smena.telemetry.tally import Tally
from tests.fixtures.eventually import PATIENCE_S
from workers.process import faultfile
from workers.process.exits import Exit
from workers.process.flightfile import Running
from workers.process.orders import Orders
from workers.process.pipe import Pipe, Ready, Report
from workers.process.recorder import FlightRecorder
from workers.supervisor import evidence, fleet_view, tallies
from workers.supervisor.child import SupervisedChild
from workers.supervisor.evidence import Ended, Evidence
from workers.supervisor.fleet_view import STALL_S, FleetView
from workers.supervisor.port import Board, Port
from workers.supervisor.post import CRASH_LOOP, Post, Role
from workers.supervisor.signals import Heard, SignalQueue
from workers.supervisor.state_file import StateFile, read_state, remove_abandoned

BACKOFF = Backoff(0.2, 10, floor_s=0.05)
ORDERS = Orders(role="worker", module="m", post=0, supervisor_pid=1, state_dir="/nowhere")


@pytest.fixture
def post() -> Post:
    """Give the only post of a role."""
    return Post(Role("worker", "m"), 0, BACKOFF)


@pytest.fixture
def pair(post: Post) -> Iterator[tuple[SupervisedChild, Pipe]]:
    """Give a child as the supervisor sees it, and the child's own end of the pipe."""
    ours, theirs = socket.socketpair()
    child, pipe = SupervisedChild(post, ORDERS, Pipe(ours), 0.0, pid=12), Pipe(theirs)
    yield child, pipe
    child.pipe.close()
    pipe.close()


def test_a_crash_loop_pauses_at_the_cap(post: Post) -> None:
    for death in range(CRASH_LOOP):
        assert not post.looping
        post.vacate(100.0, 12, 0.0, ended_well=False)
        assert death == CRASH_LOOP - 1 or post.last_wait_s <= 0.2 * 2**death
    assert post.looping
    assert post.due_s == 100.0 + BACKOFF.cap_s


@pytest.mark.parametrize(("healthy_s", "ended_well"), [(BACKOFF.cap_s, False), (0.0, True)])
def test_a_healthy_spell_or_a_good_end_ends_the_row_of_deaths(post: Post, healthy_s: float, ended_well: bool) -> None:
    for _ in range(CRASH_LOOP):
        post.vacate(0.0, 12, 0.0, ended_well=False)
    post.vacate(0.0, 12, healthy_s, ended_well=ended_well)
    assert post.last_wait_s <= BACKOFF.base_s
    assert not post.looping


def test_p49_five_hundred_dead_children_leave_nothing_behind() -> None:
    figures = tallies.Tallies()
    tally = Tally()
    tally.count("sales.record", "done")
    for pid in range(500):
        figures.keep(pid, {**tally.snapshot(), "gauges": {"smena_in_flight": {"sales": 1}}})
        figures.fold(pid)

    base, children = figures.figures({})
    assert base["counters"] == {"smena_jobs_total": {"sales.record|done": 500}}
    assert base["gauges"] == {}
    assert children["gauges"] == {"smena_children": {}}


def test_figures_that_do_not_fit_are_left_out() -> None:
    figures = tallies.Tallies()
    tally = Tally()
    tally.latency("sales", 0.1)
    figures.keep(1, tally.snapshot())
    figures.keep(2, {"histograms": {"smena_queue_latency_seconds": {"sales": [1, 2]}}})
    figures.keep(3, {"counters": "nonsense"})  # type: ignore[dict-item]

    total = tallies.added(figures.figures({}))
    assert sum(total["histograms"]["smena_queue_latency_seconds"]["sales"]) == 1


def test_p56_a_loop_that_stands_still_is_named(pair: tuple[SupervisedChild, Pipe]) -> None:
    child, pipe = pair
    pipe.send(Ready())
    for now, tick in ((0.0, 5), (STALL_S, 5), (STALL_S + 5, 5)):
        pipe.send(Report({}, {"link": tick, "work": int(now)}))
        child.hear(now)
        still = fleet_view.standing_still([child], now)
        assert still == (() if now <= STALL_S else ("worker-0 (pid 12): link stands still for 20 s",))


def test_p56_a_child_that_says_nothing_is_named(pair: tuple[SupervisedChild, Pipe]) -> None:
    child, pipe = pair
    pipe.send(Ready())
    child.hear(1.0)

    assert fleet_view.standing_still([child], 1.0 + STALL_S) == ()
    assert fleet_view.standing_still([child], 11.0 + STALL_S) == ("worker-0 (pid 12): report stands still for 25 s",)
    child.stopped_s = 25.0
    still = fleet_view.standing_still([child], 11.0 + STALL_S)
    assert still == ("worker-0 (pid 12): report stands still for 25 s, stopped",)
    assert FleetView(state="ready", standing_still=still).not_ready() == still


def test_a_child_that_talks_nonsense_is_not_heard_again(pair: tuple[SupervisedChild, Pipe]) -> None:
    child, pipe = pair
    child.pid = 0
    os.write(pipe.fileno(), b"nonsense\n")
    child.hear(0.0)

    assert child.pipe.closed
    assert "not a message" in child.failure


def test_readiness_names_each_post_that_lacks_something(post: Post, pair: tuple[SupervisedChild, Pipe]) -> None:
    child, pipe = pair
    assert fleet_view.missing([post], []) == ("worker-0: not up",)
    assert fleet_view.missing([post], [child]) == ("worker-0: starting",)
    pipe.send(Ready())
    pipe.send(Report({}, {}, ("broker", "database")))
    child.hear(0.0)
    assert fleet_view.missing([post], [child]) == ("worker-0: cannot reach broker, database",)
    pipe.send(Report())
    child.hear(0.0)
    assert fleet_view.missing([post], [child]) == ()
    assert FleetView(state="draining").not_ready() == ("draining",)


def test_the_board_is_not_live_when_the_arbiter_stands_still() -> None:
    clock = MovedClock(datetime(2026, 1, 1, tzinfo=UTC))
    board = Board(clock)
    board.publish(FleetView(state="ready"))
    assert board.answer("/live").status == 200
    clock.advance(STALL_S + 1)
    answer = board.answer("/live")
    assert (answer.status, answer.body) == (503, b"supervisor: its loop stands still for 16 s\n")
    assert board.answer("/nowhere").status == 404


def test_the_port_answers_while_another_client_says_nothing() -> None:
    board = Board(SYSTEM)
    board.publish(FleetView(state="ready"))
    port = Port("127.0.0.1", 0, board.answer)
    port.start()
    with socket.create_connection(("127.0.0.1", port.number)):
        with urllib.request.urlopen(f"http://127.0.0.1:{port.number}/ready", timeout=PATIENCE_S) as answer:
            assert answer.read() == b"ok\n"
        with pytest.raises(
            Misconfigured, match="each supervisor of a host needs a port of its own: set SMENA_SUPERVISOR_METRICS_PORT"
        ):
            Port("127.0.0.1", port.number, board.answer).start()
    assert port.stop(Deadline.within(PATIENCE_S, SYSTEM))


def test_evidence_blames_the_thread_that_the_fault_names() -> None:
    jobs = tuple(Running(slot, f"job-{slot}", "a.b", 1, 1.0, 100 + slot, 0x7F00 + slot) for slot in range(3))
    fault = faultfile.Fault("Segmentation fault", 0x7F01, "")

    assert [job.job_id for job in Evidence(jobs, fault).blamed] == ["job-1"]
    assert Evidence(jobs).blamed == ()
    assert Evidence(jobs, faultfile.Fault("Aborted", 0, "")).blamed == ()


def test_evidence_is_read_once_and_leaves_no_file(tmp_path: Path) -> None:
    orders = Orders(role="worker", module="m", post=0, supervisor_pid=1, state_dir=str(tmp_path))
    flight, fault = orders.file(7, "flight"), orders.file(7, "fault")
    orders.file(7, "stacks").touch()
    recorder = FlightRecorder(flight, 1)
    recorder.enter(0, "job", "a.b", 1, 1.0)
    recorder.close()
    fault.write_text(
        "Fatal Python error: Aborted\n\nThread 0x00007f59 (most recent call first):\n  <no Python frame>\n\n"
        'Current thread 0x00007f5a [pool] (most recent call first):\n  File "a.py", line 1 in f\n\nExtension modules\n'
    )

    left = evidence.collect(orders, 7)

    assert [job.job_id for job in left.running] == ["job"]
    assert left.fault is not None
    assert left.fault == faultfile.Fault("Aborted", 0x7F5A, '  File "a.py", line 1 in f\n')
    assert list(tmp_path.iterdir()) == []
    assert evidence.collect(orders, 7) == Evidence()


def test_files_of_processes_that_are_gone_are_swept(tmp_path: Path) -> None:
    gone, living = tmp_path / "4194304.flight", tmp_path / f"{os.getpid()}.fault"
    gone.touch()
    living.touch()

    assert evidence.sweep(tmp_path) == 1
    assert list(tmp_path.iterdir()) == [living]


def test_what_is_no_childs_file_is_not_swept(tmp_path: Path) -> None:
    for name in ("poem.lines", "4194304b.fault", "-1.stacks", "4194304.txt"):
        (tmp_path / name).touch()
    (tmp_path / "4194304.lines").mkdir()
    (tmp_path / "4194305.flight").symlink_to("poem.lines")
    before = set(tmp_path.iterdir())

    assert evidence.sweep(tmp_path) == 0
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("ended", "how"),
    [
        (Ended(1, 0), "drained"),
        (Ended(1, 77), "exit_77"),
        (Ended(1, None, signal.SIGKILL), "SIGKILL"),
        (Ended(1, None, signal.SIGRTMIN + 6), "SIGRTMIN+6"),
        (Ended(1, None, 32), "signal 32"),
        (Ended(0), "never_seen"),
    ],
)
def test_an_end_has_a_word(ended: Ended, how: str) -> None:
    assert ended.how == how


def test_the_state_file_is_replaced_whole_and_goes_with_its_owner(tmp_path: Path) -> None:
    state = StateFile(tmp_path / "deep" / "state")
    state.take()
    state.write({"pid": 1, "state": "booting"})
    state.write({"pid": 1, "state": "ready"})

    assert read_state(state.folder) == {"pid": 1, "state": "ready"}
    assert state.folder.stat().st_mode & 0o777 == 0o700
    with pytest.raises(Misconfigured, match="another supervisor"):
        StateFile(state.folder).take()
    state.release()
    assert read_state(state.folder) is None
    again = StateFile(state.folder)
    again.take()
    again.release()


@pytest.mark.parametrize("place", ["/proc/x", "file", "file/below"])
def test_a_folder_that_cannot_be_the_supervisors_is_told_in_one_sentence(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Misconfigured, match="cannot be made or written") as refused:
        StateFile(tmp_path / place).take()
    assert "\n" not in str(refused.value)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateFile]:
    """Give a folder that is taken, with its state written."""
    state = StateFile(tmp_path / "state")
    state.take()
    state.write({"pid": 1})
    yield state
    state.release()


@pytest.mark.parametrize("removed", ["folder", "lock"])
def test_a_folder_that_a_cleaner_removed_is_made_and_locked_again(state: StateFile, removed: str) -> None:
    assert not state.retake()
    if removed == "folder":
        shutil.rmtree(state.folder)
    else:
        (state.folder / "supervisor.lock").unlink()

    assert state.retake()
    assert not state.retake()
    state.write({"pid": 1})

    assert read_state(state.folder) == {"pid": 1}
    assert state.folder.stat().st_mode & 0o777 == 0o700
    with pytest.raises(Misconfigured, match="another supervisor"):
        StateFile(state.folder).take()


def test_a_link_in_place_of_the_removed_folder_is_refused(state: StateFile, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "supervisor.json").touch()
    shutil.rmtree(state.folder)
    state.folder.symlink_to(elsewhere)

    with pytest.raises(Misconfigured, match="another stands there"):
        state.retake()
    assert [path.name for path in elsewhere.iterdir()] == ["supervisor.json"]


def test_what_a_link_leads_to_is_left_alone_at_the_end(tmp_path: Path) -> None:
    lost, elsewhere = StateFile(tmp_path / "state"), tmp_path / "elsewhere"
    lost.take()
    shutil.rmtree(lost.folder)
    elsewhere.mkdir()
    (elsewhere / "supervisor.json").touch()
    lost.folder.symlink_to(elsewhere)

    lost.release()

    assert (elsewhere / "supervisor.json").exists()


def test_a_folder_of_another_users_in_place_of_the_removed_one_is_refused(
    state: StateFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(state.folder)
    state.folder.mkdir()
    with monkeypatch.context() as as_another:
        as_another.setattr(os, "geteuid", lambda: state.folder.stat().st_uid + 1)
        with pytest.raises(Misconfigured, match="another stands there"):
            state.retake()
    assert list(state.folder.iterdir()) == []


def test_folders_of_killed_supervisors_are_removed_and_no_others(tmp_path: Path) -> None:
    killed, living, young, foreign = (tmp_path / name for name in ("killed", "living", "young", "foreign"))
    held = StateFile(living)
    held.take()
    held.write({"pid": 1})
    for folder in (killed, young, foreign):
        folder.mkdir()
    (killed / "supervisor.json").write_text("{}")
    (killed / "12.flight").touch()
    (foreign / "notes.txt").touch()

    assert remove_abandoned(tmp_path.iterdir()) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"living", "young", "foreign"}
    held.release()


def test_hup_stays_unheard_where_it_was_ignored_from_the_start() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signals = SignalQueue([signal.SIGHUP, signal.SIGUSR1])
    signals.open()
    try:
        signal.pthread_kill(threading.get_ident(), signal.SIGHUP)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        assert signals.take() == [Heard(signal.SIGUSR1)]
    finally:
        signals.close()
        signal.signal(signal.SIGHUP, before)


def test_a_supervisor_that_was_started_with_a_real_time_signal_blocked_keeps_it_so() -> None:
    mine = {signal.SIGRTMIN + 6}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, mine)
    signals = SignalQueue([signal.SIGUSR1])
    try:
        signals.open()
        signals.close()
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before | mine
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_exit_codes_are_what_scripts_rely_on() -> None:
    assert {name: int(code) for name, code in Exit.__members__.items()} == json.loads(
        '{"DRAINED": 0, "CRASHED": 1, "MISCONFIGURED": 2, "DRAIN_OVERRAN": 3, "ENDED_NOW": 4, "PARENT_LOST": 5}'
    )
