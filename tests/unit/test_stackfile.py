"""Asking a process for its stacks."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.eventually import eventually
from workers.process import stackfile
from workers.process.stackfile import StackFile


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Path]:
    """Let this process listen; give its file."""
    file = StackFile(tmp_path / "stacks")
    yield tmp_path / "stacks"
    file.close()
    signal.signal(stackfile.SIGNAL, signal.SIG_DFL)


def test_each_asking_gives_the_stacks_of_then_and_names_the_threads(listening: Path) -> None:
    for _ in range(2):
        begin = stackfile.ask(os.getpid(), listening)
        assert begin is not None
        found = eventually(lambda begin=begin: list(stackfile.read(listening, begin)))  # type: ignore[misc]
        mine = [stack for stack in found if stack.thread_ident == threading.get_ident()]
        assert len(mine) == 1
        assert "stackfile.py" in mine[0].text


def test_a_process_that_does_not_listen_is_not_signalled(tmp_path: Path) -> None:
    (tmp_path / "stacks").touch()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        assert stackfile.ask(other.pid, tmp_path / "stacks") is None
        other.communicate(b"\n")
    assert other.returncode == 0


def test_a_process_that_is_gone_is_nobody(tmp_path: Path) -> None:
    assert stackfile.ask(4194304, tmp_path / "stacks") is None
    assert list(stackfile.read(tmp_path / "stacks", 0)) == []
