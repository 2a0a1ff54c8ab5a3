"""A process whose own descriptors are gone ends at once, whoever finds it first."""

import os
import subprocess
import sys
from typing import Final

import pytest

from tests.fixtures.eventually import PATIENCE_S
from workers.process.exits import Exit

_IN_ORDER: Final = 77

_SPENT: Final = """
import resource
from smena.errors import DatabaseLost
from workers.process.mishaps import Mishaps

ended = []
mishaps = Mishaps(ended.append, list)
lost = DatabaseLost("connection is bad: no error details available")
print(mishaps.end_if_spent(lost), len(ended))
resource.setrlimit(resource.RLIMIT_NOFILE, (5, 5))
print(mishaps.end_if_spent(lost), mishaps.end_if_spent(lost), len(ended))
"""

_PROGRAM: Final = """
import os, sys, threading
from smena.amqp.link import LinkThread
from smena.telemetry import events
from workers.execution.coroutines import Coroutines
from workers.process.mishaps import Mishaps

events.subscribe(lambda told: print(told.event.name, "in", told.fields["where"], flush=True), only=[events.PROCESS_BUG])
ended = threading.Event()
mishaps = Mishaps(lambda _: ended.set(), list, lambda: print("marked", end=" ", flush=True))
mishaps.install()
parts = {
    "link": LinkThread,
    "loop": lambda: Coroutines([], mishaps.in_loop, mishaps.out_of_loop),
}
if sys.argv[1] == "stray":
    threading.Thread(target=lambda: os.read(4095, 1), name="stray").start()
elif sys.argv[1] == "exits":
    threading.Thread(target=sys.exit, name="link").start()
else:
    parts[sys.argv[1]]().start()
    os.closerange(3, 4096)
ended.wait(float(sys.argv[2]))
os._exit(77)
"""


def _run(part: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", _PROGRAM, part, str(PATIENCE_S)]
    return subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE_S, env=dict(os.environ))


@pytest.mark.parametrize(("part", "where"), [("link", "the thread link"), ("loop", "the event loop")])
def test_a_process_without_its_own_descriptors_ends_at_once(part: str, where: str) -> None:
    ran = _run(part)

    assert ran.returncode == Exit.CRASHED
    assert ran.stdout == f"marked process.bug in {where}\n"


def test_a_thread_of_the_users_own_that_reads_what_is_closed_ends_the_process_in_order() -> None:
    ran = _run("stray")

    assert (ran.returncode, ran.stdout) == (_IN_ORDER, "process.bug in the thread stray\n")


def test_p21_a_thread_of_the_fleets_own_that_a_job_has_made_exit_ends_the_process_in_order() -> None:
    ran = _run("exits")

    assert (ran.returncode, ran.stdout) == (_IN_ORDER, "marked process.bug in the thread link\n")


def test_p30_a_lost_database_is_this_processs_own_want_when_it_has_no_descriptor_left() -> None:
    ran = subprocess.run([sys.executable, "-c", _SPENT], capture_output=True, text=True, timeout=PATIENCE_S)

    assert ran.stdout == "False 0\nTrue True 1\n", ran.stderr
