"""Against whom a death is held, and that a database that is away delays nobody but the record."""

import os
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from smena.backoff import Backoff
from smena.clock import SYSTEM, Deadline
from smena.errors import DatabaseLost
from smena.records.strike import Strike
from tests.fixtures.eventually import PATIENCE_S, eventually
from workers.process import lastlines
from workers.process.exits import Exit
from workers.process.faultfile import Fault
from workers.process.flightfile import Running
from workers.process.lastlines import LastLines
from workers.process.orders import Orders
from workers.process.pipe import Draining, Pipe, Stuck
from workers.supervisor.burial import Burial, bury
from workers.supervisor.child import SupervisedChild
from workers.supervisor.culprit import Culprit
from workers.supervisor.evidence import Ended, Evidence
from workers.supervisor.post import Post, Role
from workers.supervisor.registrar import Registrar

ORDERS = Orders(role="worker", module="m", post=0, supervisor_pid=1, state_dir="/nowhere", life="this one")
KILLED = Ended(12, None, signal.SIGKILL, peak_kib=4096)


@pytest.fixture
def pipes() -> Iterator[tuple[Pipe, Pipe]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Pipe(ours), Pipe(theirs)


@pytest.fixture
def child(pipes: tuple[Pipe, Pipe]) -> SupervisedChild:
    return SupervisedChild(Post(Role("worker", "m"), 0, Backoff(0.2, 10)), ORDERS, pipes[0], 0.0, pid=12)


@pytest.fixture
def line(pipes: tuple[Pipe, Pipe]) -> Pipe:
    """Return the child's own end."""
    return pipes[1]


def ran(*threads: int) -> tuple[Running, ...]:
    return tuple(Running(slot, f"job{slot}", "a.b", 1, 1.0, thread, thread) for slot, thread in enumerate(threads))


def struck(child: SupervisedChild, ended: Ended, left: Evidence) -> list[tuple[str, str]]:
    return [(strike.job_id, strike.why) for strike in bury(child, ended, left, "here").strikes]


def test_p21_all_that_ran_in_a_killed_process_are_suspected(child: SupervisedChild) -> None:
    strikes = bury(child, KILLED, Evidence(ran(1, 2), lines="last"), "here").strikes
    told = [(one.job_id, one.why, one.beside, one.how, one.peak_mib, one.lines, one.life) for one in strikes]
    assert told == [(f"job{n}", "suspected", 2, "SIGKILL", 4, "last", "this one") for n in (0, 1)]
    assert all(one.ran_s and one.ran_s > 1 for one in strikes)


def test_p21_the_job_whose_thread_the_fault_names_is_struck_alone(child: SupervisedChild) -> None:
    left = Evidence(ran(1, 2, 3), Fault("Segmentation fault", 2, "where"))
    assert struck(child, Ended(12, None, signal.SIGSEGV), left) == [("job1", "fault")]


def test_p21_a_fault_on_the_event_loop_strikes_those_that_share_it(child: SupervisedChild) -> None:
    left = Evidence(ran(1, 2, 2), Fault("Segmentation fault", 2, "where"))
    assert struck(child, Ended(12, None, signal.SIGSEGV), left) == [("job1", "suspected"), ("job2", "suspected")]


def test_p21_a_job_for_whose_sake_the_process_was_killed_is_struck_alone(child: SupervisedChild) -> None:
    child.killed, child.culprits = True, (Culprit("job1", "a.b", 1, 1, "hard_limit"),)
    assert struck(child, KILLED, Evidence(ran(1, 2))) == [("job1", "hard_limit")]


def test_p26_each_job_that_was_past_its_hard_limit_is_charged_and_nobody_beside_them(
    child: SupervisedChild, line: Pipe
) -> None:
    for slot in (0, 2):
        line.send(Stuck(f"job{slot}", "a.b", 1, slot))
    child.hear(1.0)
    child.killed = True
    assert struck(child, KILLED, Evidence(ran(1, 2, 3))) == [("job0", "hard_limit"), ("job2", "hard_limit")]


def test_p28_of_those_that_shared_a_held_event_loop_all_are_suspects_and_nobody_beside_them(
    child: SupervisedChild,
) -> None:
    child.killed, child.suspects = True, ran(1, 2, 2)[1:]
    assert struck(child, KILLED, Evidence(ran(1, 2, 2))) == [("job1", "suspected"), ("job2", "suspected")]


def test_p21_of_those_that_ran_in_a_stopped_process_it_is_said_that_it_was_stopped(child: SupervisedChild) -> None:
    child.killed, child.stopped_s = True, 60.5
    strikes = bury(child, KILLED, Evidence(ran(1, 2)), "here").strikes
    assert [(one.why, one.how) for one in strikes] == [("suspected", "SIGKILL after it was stopped")] * 2


@pytest.mark.parametrize("code", [*Exit, 77])
def test_p21_a_job_that_exits_the_process_is_suspected_whatever_its_code(child: SupervisedChild, code: int) -> None:
    assert struck(child, Ended(12, code), Evidence(ran(1))) == [("job0", "suspected")]


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Let no signal reach the child, which is none of ours; return what was sent."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    return sent


def drains(child: SupervisedChild, line: Pipe) -> None:
    """Let the child say that it has begun to drain."""
    line.send(Draining())
    child.hear(1.0)


@pytest.mark.parametrize("code", [Exit.DRAINED, Exit.DRAIN_OVERRAN, Exit.CRASHED])
def test_p19_a_drain_that_the_supervisor_asked_for_is_held_against_nobody(
    child: SupervisedChild, line: Pipe, deaf: list[tuple[int, int]], code: Exit
) -> None:
    child.ask_to_drain()
    assert deaf == [(12, signal.SIGTERM)]
    drains(child, line)
    assert struck(child, Ended(12, code), Evidence(ran(1))) == []


@pytest.mark.usefixtures("deaf")
def test_p19_a_child_that_the_supervisor_killed_for_being_late_is_held_against_nobody(child: SupervisedChild) -> None:
    child.ask_to_drain()
    child.killed = True
    assert struck(child, KILLED, Evidence(ran(1))) == []


@pytest.mark.parametrize("code", [Exit.DRAIN_OVERRAN, Exit.CRASHED, Exit.DRAINED, 7])
def test_p21_what_still_ran_at_the_end_of_a_drain_that_nobody_here_asked_for_is_suspected(
    child: SupervisedChild, line: Pipe, code: int
) -> None:
    drains(child, line)
    assert struck(child, Ended(12, code), Evidence(ran(1, 2))) == [("job0", "suspected"), ("job1", "suspected")]
    assert struck(child, Ended(12, code), Evidence()) == []


def test_p21_what_ran_in_a_child_that_drained_of_itself_and_was_killed_for_being_late_is_suspected(
    child: SupervisedChild, line: Pipe
) -> None:
    drains(child, line)
    child.killed = True
    assert struck(child, KILLED, Evidence(ran(1))) == [("job0", "suspected")]


@pytest.mark.usefixtures("deaf")
def test_p21_a_child_that_drains_of_itself_is_not_excused_by_being_relieved_meanwhile(
    child: SupervisedChild, line: Pipe
) -> None:
    drains(child, line)
    child.ask_to_drain()
    assert struck(child, Ended(12, Exit.DRAIN_OVERRAN), Evidence(ran(1))) == [("job0", "suspected")]


@pytest.mark.usefixtures("deaf")
@pytest.mark.parametrize("child_is_first", [True, False])
def test_p19_in_the_drain_of_the_whole_fleet_it_is_nobodys_fault_whoever_hears_of_it_first(
    child: SupervisedChild, line: Pipe, *, child_is_first: bool
) -> None:
    if child_is_first:
        drains(child, line)
    child.ask_to_drain(with_all=True)
    if not child_is_first:
        drains(child, line)
    assert struck(child, Ended(12, Exit.DRAIN_OVERRAN), Evidence(ran(1))) == []


def had_ended(*jobs: int) -> tuple[Running, ...]:
    return tuple(Running(slot, f"was{slot}", "a.b", 1, 1.0, 1, 1, ended_at=3.5) for slot in jobs)


ENDED = [("was0", "ended"), ("was1", "ended")]


def test_p21_what_had_just_ended_in_a_child_that_died_of_itself_is_suspected_apart_from_what_ran(
    child: SupervisedChild,
) -> None:
    strikes = bury(child, KILLED, Evidence(ran(1), ended=had_ended(0, 1)), "here").strikes
    assert [(one.job_id, one.beside, one.why) for one in strikes] == [
        ("job0", 1, "suspected"),
        ("was0", 2, "ended"),
        ("was1", 2, "ended"),
    ]
    assert [one.ran_s for one in strikes[1:]] == [2.5, 2.5]


@pytest.mark.parametrize("code", [Exit.DRAIN_OVERRAN, Exit.CRASHED, Exit.DRAINED])
def test_p21_what_had_ended_in_a_drain_is_suspected_only_if_the_child_had_lost_what_it_settles_by(
    child: SupervisedChild, line: Pipe, code: int
) -> None:
    drains(child, line)
    assert struck(child, Ended(12, code), Evidence(ended=had_ended(0, 1))) == []
    assert struck(child, Ended(12, code), Evidence(ended=had_ended(0, 1), is_broken=True)) == ENDED
    child.killed = True
    assert struck(child, KILLED, Evidence(ended=had_ended(0, 1))) == []
    assert struck(child, KILLED, Evidence(ended=had_ended(0, 1), is_broken=True)) == ENDED


@pytest.mark.usefixtures("deaf")
def test_p19_what_had_ended_in_a_child_that_was_asked_to_end_is_held_against_nobody(
    child: SupervisedChild, line: Pipe
) -> None:
    child.ask_to_drain()
    drains(child, line)
    assert struck(child, Ended(12, Exit.DRAINED), Evidence(ended=had_ended(0, 1), is_broken=True)) == []


def test_p21_what_had_ended_is_innocent_where_another_is_to_blame(child: SupervisedChild) -> None:
    left = Evidence(ran(1, 2), Fault("Segmentation fault", 2, "where"), ended=had_ended(0, 1))
    assert struck(child, Ended(12, None, signal.SIGSEGV), left) == [("job1", "fault")]
    child.killed, child.culprits = True, (Culprit("job1", "a.b", 1, 1, "hard_limit"),)
    assert struck(child, KILLED, left) == [("job1", "hard_limit")]


class Away:
    """A register that cannot be reached for a while."""

    def __init__(self, refusals: int) -> None:
        self.written: list[str] = []
        self.refusals = refusals

    def bury(self, life: str, found: Sequence[Strike]) -> None:  # noqa: ARG002
        self.refusals -= 1
        if self.refusals >= 0:
            raise DatabaseLost
        self.written.append(life)


def test_burials_wait_in_order_for_a_database_that_is_away() -> None:
    away = Away(3)
    registrar = Registrar(away)
    registrar.start()
    for life in ("a", "b", "c"):
        registrar.bury(Burial(life))
    eventually(lambda: away.written == ["a", "b", "c"])
    assert registrar.stop(Deadline.within(PATIENCE_S, SYSTEM))


def test_a_supervisor_that_ends_writes_its_last_burials_first() -> None:
    away = Away(0)
    registrar = Registrar(away)
    registrar.bury(Burial("a"))
    registrar.start()
    assert registrar.stop(Deadline.within(PATIENCE_S, SYSTEM))
    assert away.written == ["a"]


def test_the_last_lines_of_a_log_outlive_whoever_wrote_them(tmp_path: Path) -> None:
    path = tmp_path / "7.lines"
    writer = LastLines(path).writer()
    for number in range(5_000):
        assert writer.write(f"line {number}\n".encode())
    assert lastlines.read(path).splitlines() == [f"line {number}" for number in range(4_990, 5_000)]
    assert writer.write(b"x" * 50_000 + b"\n")
    assert set(lastlines.read(path)) <= {"x"}
    assert lastlines.read(tmp_path / "none") == ""


def test_lines_of_many_threads_are_whole(tmp_path: Path) -> None:
    path = tmp_path / f"{os.getpid()}.lines"
    writer = LastLines(path).writer()

    def write(name: str) -> None:
        for _ in range(500):
            writer.write(f"{name * 50}\n".encode())

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert all(len(set(line)) == 1 and len(line) == 50 for line in lastlines.read(path).splitlines())
