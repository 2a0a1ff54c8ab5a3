"""Who stands back from the processor can step forward again, whoever he is; else he does not stand back."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workers.process.priority import STEPS

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import ctypes, os, sys, threading
from pathlib import Path
from workers.process.priority import StandingBack, stand_back

def show():
    group = Path("/proc/self/autogroup")  # empty in a session as old as the machine: it is no group
    nice = {os.getpriority(os.PRIO_PROCESS, int(thread.name)) for thread in Path("/proc/self/task").iterdir()}
    print(*sorted(nice), "|", *(group.read_text().split() if group.exists() else [])[-1:] or "0")

if "nobody" in sys.argv:
    os.setgroups([])
    os.setresgid(*[65534] * 3)
    os.setresuid(*[65534] * 3)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # who has changed his user may otherwise not write to his own files in /proc
standing, over = StandingBack(), threading.Event()
show()
standing.begin()
waiting = threading.Thread(target=over.wait)
waiting.start()
show()
standing.end()
show()
over.set()
waiting.join()
while len(list(Path("/proc/self/task").iterdir())) > 1:
    pass  # the kernel lets go of a thread a moment later
stand_back(3)
show()
"""


def stages(*, nobody: bool, own_session: bool = True) -> list[str]:
    """Return the nice values of process and session: as it was, standing back, stepped forward, back for good."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, "nobody" if nobody else "the same"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=own_session,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return ran.stdout.splitlines()


@pytest.mark.parametrize("nobody", [False, True] if os.geteuid() == 0 else [False])
def test_what_was_begun_is_taken_back_by_all_threads(nobody: bool) -> None:
    before, back, forward, _ = stages(nobody=nobody)
    assert forward == before
    nice, group = (int(word) for word in back.split("|"))
    first, _ = (int(word) for word in before.split("|"))
    may_return = os.geteuid() == 0 and not nobody
    assert nice == first + (STEPS if may_return else 0)
    assert group == (STEPS if Path("/proc/self/autogroup").exists() else 0)


def test_the_group_of_another_session_is_left_alone() -> None:
    groups = {stage.rpartition("|")[2] for stage in stages(nobody=False, own_session=False)}
    assert len(groups) == 1


def test_for_good_is_for_good() -> None:
    before, _, _, for_good = stages(nobody=False)
    assert int(for_good.split("|")[0].split()[-1]) == int(before.split("|")[0].split()[-1]) + 3
