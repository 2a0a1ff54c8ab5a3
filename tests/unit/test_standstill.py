"""Who holds a process, and that one which was stopped is held by nobody."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from smena.clock import MovedClock
from tests.fixtures.eventually import eventually
from workers.process import processor
from workers.process.recorder import FlightRecorder
from workers.process.standstill import LOOK_S, Standstill

HEARTBEAT_S = 20.0
BEATS = int(HEARTBEAT_S / LOOK_S)

PROGRAM = """
import sys
from pathlib import Path
from workers.process.recorder import FlightRecorder
recorder = FlightRecorder(Path(sys.argv[1]), 3)
for slot in range(int(sys.argv[2])):
    recorder.bind(slot)
    recorder.enter(slot, f"job{slot}", "a.b", 1, 1.0)
recorder.link_tick = 1
print("up", flush=True)
if sys.argv[3] == "spins":
    while True:
        pass
sys.stdin.read()
"""
"""A process whose link's tick stands still."""


@contextmanager
def process(path: Path, jobs: int, does: str) -> Iterator[int]:
    command = [sys.executable, "-c", PROGRAM, str(path), str(jobs), does]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == b"up\n"
            yield running.pid
        finally:
            running.kill()


class Looks:
    """Looks as often as the supervisor does, on a clock of the test's own."""

    def __init__(self, pid: int, path: Path, *, spends: bool = False) -> None:
        self._pid, self._spends = pid, spends
        self._clock = MovedClock(datetime(2026, 1, 1, tzinfo=UTC))
        self._watch = Standstill(pid, path, HEARTBEAT_S, self._clock)
        self._watch.look()

    def held(self, heartbeats: float) -> tuple[list[str], bool] | None:
        """Let so much time pass; return who was found to hold it, and whether one is to blame."""
        for number in range(int(heartbeats * BEATS)):
            self._clock.advance(LOOK_S)
            if (holders := self._watch.look()) is not None:
                return [job.job_id for job in holders.jobs], holders.culprit is not None
            if self._spends and number == BEATS // 4:  # it was looked at once: what is spent from here on tells
                before = processor.used(self._pid)
                eventually(lambda: processor.spender(self._pid, before) is not None)  # noqa: B023 - called here
        return None


@pytest.mark.parametrize(("jobs", "found"), [(1, (["job0"], True)), (2, (["job0", "job1"], False))])
def test_p28_the_jobs_on_the_thread_that_spends_the_time_hold_it(
    tmp_path: Path, jobs: int, found: tuple[list[str], bool]
) -> None:
    path = tmp_path / "flight"
    with process(path, jobs, "spins") as pid:
        assert Looks(pid, path, spends=True).held(0.6) == found


def test_p28_where_no_thread_spends_any_nobody_is_to_blame_and_it_gets_the_whole_time(tmp_path: Path) -> None:
    path = tmp_path / "flight"
    with process(path, 1, "waits") as pid:
        looks = Looks(pid, path)
        assert looks.held(0.9) is None
        assert looks.held(0.2) == (["job0"], False)


def test_a_process_in_which_no_job_runs_is_held_by_none(tmp_path: Path) -> None:
    path = tmp_path / "flight"
    with process(path, 0, "waits") as pid:
        assert Looks(pid, path).held(3) is None


@pytest.mark.parametrize("tick", [0, 1])
def test_p28_the_time_counts_from_when_a_job_runs_also_where_the_link_has_not_ticked_yet(
    tmp_path: Path, tick: int
) -> None:
    recorder = FlightRecorder(tmp_path / "boots", 1)
    recorder.link_tick = tick
    with process(tmp_path / "flight", 0, "waits") as pid:
        looks = Looks(pid, recorder.path)
        assert looks.held(3) is None, "a boot may take its time"
        recorder.enter(0, "early", "a.b", 1, 1.0)
        assert looks.held(0.9) is None
        assert looks.held(0.2) == (["early"], False)
    recorder.close()


def test_a_stopped_process_is_not_taken_for_a_held_one(tmp_path: Path) -> None:
    path = tmp_path / "flight"
    with process(path, 1, "waits") as pid:
        os.kill(pid, signal.SIGSTOP)
        eventually(lambda: processor.is_stopped(pid))
        looks = Looks(pid, path)
        assert looks.held(3) is None
        os.kill(pid, signal.SIGCONT)
        eventually(lambda: not processor.is_stopped(pid))
        assert looks.held(0.9) is None, "it begins anew"
        assert looks.held(0.2) is not None


def test_one_who_has_not_looked_for_a_while_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "flight"
    with process(path, 1, "waits") as pid:
        clock = MovedClock(datetime(2026, 1, 1, tzinfo=UTC))
        watch = Standstill(pid, path, HEARTBEAT_S, clock)
        watch.look()
        clock.advance(10 * HEARTBEAT_S)
        assert watch.look() is None
