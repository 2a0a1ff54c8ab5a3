"""A signal to the whole process group, of which the supervisor hears when a child has ended of it already."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from smena.backoff import Backoff
from smena.clock import SYSTEM
from workers.process.exits import Exit
from workers.process.orders import Orders
from workers.process.pipe import Draining, Pipe
from workers.process.recorder import FlightRecorder
from workers.supervisor.arbiter import Arbiter
from workers.supervisor.budgets import Budgets
from workers.supervisor.burial import Burial
from workers.supervisor.child import SupervisedChild
from workers.supervisor.crew import Crew
from workers.supervisor.nurseries import Nurseries
from workers.supervisor.post import Post, Role
from workers.supervisor.scale import Scale
from workers.supervisor.signals import Heard, SignalQueue
from workers.supervisor.upkeep import Upkeep


class HeardLate(SignalQueue):
    """TERM comes between the round's look at the signals and its look at the dead."""

    def __init__(self, quiet: socket.socket) -> None:
        super().__init__(())
        self._quiet = quiet
        self._looks = 0

    def fileno(self) -> int:
        return self._quiet.fileno()

    def take(self) -> list[Heard]:
        self._looks += 1
        return [Heard(signal.SIGTERM)] if self._looks == 2 else []


@pytest.fixture
def dead() -> Iterator[int]:
    """Give a child process that has overrun its drain and is not reaped yet."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"raise SystemExit({Exit.DRAIN_OVERRAN})"], start_new_session=True
    )
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    yield process.pid
    process.wait()


def test_p19_a_child_that_ended_of_a_signal_to_the_whole_group_ended_with_the_fleet(
    dead: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)  # the arbiter takes them over
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    orders = Orders(role="worker", module="m", post=0, supervisor_pid=os.getpid(), state_dir=str(tmp_path))
    recorder = FlightRecorder(orders.file(dead, "flight"), 1)
    recorder.enter(0, "job", "a.b", 1, time.time())
    recorder.close()
    buried: list[Burial] = []
    crew = Crew([], Nurseries({}), lambda _post: orders, lambda _orders, _end: 0, SYSTEM, buried.append)
    post, budgets = Post(Role("worker", "m"), 0, Backoff(0.2, 10)), Budgets(drain_s=0, kill_grace_s=1)
    upkeep = Upkeep(crew, Scale(crew, lambda _role, _number: post, 1), budgets, SYSTEM)
    ours, theirs = socket.socketpair()
    quiet, other = socket.socketpair()
    with theirs, quiet, other:
        crew.children.append(SupervisedChild(post, orders, Pipe(ours), SYSTEM.monotonic(), pid=dead))
        Pipe(theirs).send(Draining())
        assert Arbiter(crew, upkeep, HeardLate(quiet), lambda _view: None, budgets, SYSTEM).run() == Exit.DRAIN_OVERRAN
    assert [burial.strikes for burial in buried] == [[]]
