"""What a child's jobs have started ends with it, also what left its session with an environment of its own making."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.acceptance.fleet.grip import alive
from tests.fixtures.eventually import eventually
from workers.process import lineage

MIDDLE = """
import subprocess, time
print(subprocess.Popen(["sleep", "600"], start_new_session=True, env={}).pid, flush=True)
time.sleep(600)
"""
LEADER = f"""
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {MIDDLE!r}])
time.sleep(600)
"""


@pytest.fixture
def leader() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", LEADER], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        yield process
        process.kill()


def test_p11_what_a_member_of_a_session_has_started_ends_with_the_session(leader: subprocess.Popen[str]) -> None:
    assert leader.stdout is not None
    pid = int(leader.stdout.readline())
    assert lineage.end_session(leader.pid) == 2
    eventually(lambda: not alive(pid))
