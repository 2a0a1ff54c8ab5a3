"""Asking a process for its stacks."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fixtures.eventually import PATIENCE_S, eventually
from workers.process import stackfile
from workers.process.stackfile import StackFile


@pytest.fixture
def file(tmp_path: Path) -> Iterator[StackFile]:
    """Let this process write its stacks."""
    file = StackFile(tmp_path / "stacks")
    yield file
    file.close()
    signal.signal(stackfile.HELD_SIGNAL, signal.SIG_DFL)


def mine(path: Path, begin: int) -> list[stackfile.Stack]:
    return [stack for stack in stackfile.read(path, begin) if stack.thread_ident == threading.get_ident()]


def test_each_writing_names_the_threads_and_where_they_are(file: StackFile, tmp_path: Path) -> None:
    for _ in range(2):
        begin = (tmp_path / "stacks").stat().st_size
        file.write()
        (stack,) = mine(tmp_path / "stacks", begin)
        assert re.search(r"test_stackfile\.py\", line \d+ in test_each", stack.text)


def test_the_second_signal_is_answered_without_python_code(file: StackFile, tmp_path: Path) -> None:
    begin = stackfile.ask(os.getpid(), tmp_path / "stacks", held=True)
    assert begin is not None
    (stack,) = eventually(lambda: mine(tmp_path / "stacks", begin))
    assert "stackfile.py" in stack.text


def test_stacks_of_threads_at_work_are_taken_a_thousand_times_without_harm(file: StackFile) -> None:
    ended = threading.Event()
    at_work = [threading.Thread(target=work_until, args=(ended,)) for _ in range(4)]
    for thread in at_work:
        thread.start()
    try:
        for _ in range(1000):
            file.write()
    finally:
        ended.set()
        for thread in at_work:
            thread.join(PATIENCE_S)


def work_until(ended: threading.Event) -> None:
    while not ended.is_set():
        sum(map(len, (str(number) for number in range(50))))


def test_a_stopped_process_is_not_asked_the_second_way(tmp_path: Path) -> None:
    path = tmp_path / "stacks"
    path.touch()
    program = f"import faulthandler; faulthandler.register({int(stackfile.HELD_SIGNAL)}); print(flush=True); input()"
    with running(program) as other:
        assert other.stdout is not None
        other.stdout.readline()
        os.kill(other.pid, signal.SIGSTOP)
        eventually(lambda: stackfile.ask(other.pid, path, held=True) is None)
        os.kill(other.pid, signal.SIGCONT)
        other.communicate(b"\n", timeout=PATIENCE_S)
    assert other.returncode == 0


@contextmanager
def running(program: str) -> "Iterator[subprocess.Popen[bytes]]":
    """Run a Python program; it is killed if it does not end with the block."""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_process_that_does_not_listen_is_not_signalled(tmp_path: Path) -> None:
    (tmp_path / "stacks").touch()
    with running("input()") as other:
        assert stackfile.ask(other.pid, tmp_path / "stacks") is None
        other.communicate(b"\n", timeout=PATIENCE_S)
    assert other.returncode == 0


def test_a_process_that_is_gone_is_nobody(tmp_path: Path) -> None:
    assert stackfile.ask(4194304, tmp_path / "stacks") is None
    assert list(stackfile.read(tmp_path / "stacks", 0)) == []
