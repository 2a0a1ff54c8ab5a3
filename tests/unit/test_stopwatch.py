"""A strike of the stopwatch meets the job that it was meant for, and leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from smena.book import Book, Registry
from smena.clock import SYSTEM, Deadline
from smena.errors import Overdue, TimeUp
from smena.job import Job
from smena.settings.groups import Retry, Worker
from smena.telemetry.tally import Board
from tests.fixtures.noted_delivery import NotedDelivery
from workers.execution.binding import bind_actors
from workers.middleware.attempt import Attempt
from workers.middleware.outcome import Done
from workers.middleware.stopwatch import Stopwatch
from workers.middleware.time_limit import DEADLINE, in_time

book = Book("strikes")


@book.actor()
def quick() -> None: ...


def test_no_interruption_is_ever_seen_outside_the_job_it_was_meant_for() -> None:
    hunt = Hunt()
    hunt.run()
    assert hunt.stray == 0
    assert hunt.struck >= Hunt.WANTED
    assert hunt.spared >= Hunt.WANTED


class Hunt:
    """A thread that runs jobs whose time is up just when they end, and another that strikes all the time.

    It goes on until enough were struck and enough ended before they were.
    """

    WANTED = 150

    def __init__(self) -> None:
        self.stray = self.struck = self.spared = 0
        self.watch = Stopwatch(Board().tally())
        self.ended = False

    def run(self) -> None:
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            worker = threading.Thread(target=self._work)
            worker.start()
            while not self.ended:
                self.watch.strike(time.monotonic())
            worker.join(60)
        finally:
            sys.setswitchinterval(before)

    def _work(self) -> None:
        self.watch.belongs_to_this_thread()
        attempt = Attempt(NotedDelivery(), Job(actor="strikes.quick", queue="q"), _bound())
        attempt.watch, attempt.bound = self.watch, DEADLINE
        give_up = Deadline.within(40, SYSTEM)
        while min(self.struck, self.spared) < self.WANTED and not self.stray and not give_up.passed():
            try:
                self._one(attempt)
            except TimeUp:
                self.stray += 1
        self.ended = True

    def _one(self, attempt: Attempt) -> None:
        try:
            in_time(attempt, 0.0, _short)
            self.spared += 1
        except Overdue:
            self.struck += 1
        for _ in range(20):  # between two jobs: settling, idling
            pass


def _short(_: Attempt) -> Done:
    for _number in range(800):
        pass
    return Done()


def _bound() -> Any:
    return bind_actors(Registry([book]), Retry(), [], None, Worker())["strikes.quick"]


TRACED_AFTER_A_STRIKE = """
import sys, threading, time
from smena.errors import TimeUp
from smena.telemetry.tally import Board
from workers.middleware.stopwatch import Stopwatch

def struck(end):
    try:
        watch.arm(0.0, "job")
        watch.strike(time.monotonic())
        for _ in range(1000):
            pass
    except TimeUp:
        pass
    end()

def step_ends():
    before, watch.struck = (9e9, "job"), "step"
    assert watch.loosen(before, "step")

watch = Stopwatch(Board().tally())
watch.belongs_to_this_thread()
struck({end})
traced = threading.Thread(target=lambda: (sys.settrace(lambda *_: None), (lambda: 1)()), daemon=True)
traced.start()
traced.join(5)
print("stands" if traced.is_alive() else "ended")
"""


@pytest.mark.parametrize("end", ["watch.disarm", "step_ends"])
def test_a_strike_that_was_taken_back_leaves_nothing_behind_in_the_interpreter(end: str) -> None:
    """What was left made each thread under a tracer stand for ever, on CPython 3.11."""
    program = TRACED_AFTER_A_STRIKE.replace("{end}", end)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout == "ended\n"
