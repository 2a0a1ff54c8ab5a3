"""Log lines come whole, say who wrote them, hold no secret, and never stand in a job's way (P50, P51)."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from smena.settings.groups import Telemetry
from smena.telemetry import events, logs
from smena.telemetry.line_writer import LINE_LIMIT, LineWriter
from tests.fixtures.eventually import PATIENCE_S, eventually

Configure = Callable[..., logs.Logs]

SHOUTER = """
import sys
from pathlib import Path
from smena.telemetry.line_writer import LineWriter
writer = LineWriter.to_file(Path(sys.argv[2])) if len(sys.argv) > 2 else LineWriter.shared(2)
for number in range(300):
    writer.write(b"%s %d " % (sys.argv[1].encode(), number) + sys.argv[1].encode() * 3900 + b"\\n")
print(writer.dropped)
"""


@pytest.fixture
def configure() -> Iterator[Configure]:
    """Configure the log, and give it back after the test."""
    opened: list[logs.Logs] = []

    def _configure(telemetry: Telemetry, **options: Any) -> logs.Logs:
        opened.append(logs.configure(telemetry, "worker", **options))
        return opened[-1]

    yield _configure
    logs.close()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ours, theirs = os.pipe()
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def only_file(tmp_path: Path, **options: Any) -> tuple[Telemetry, Path]:
    path = tmp_path / "log.json"
    return Telemetry(log_file=path, **options), path


def test_an_event_is_one_line_with_its_fields_and_its_process(configure: Configure, tmp_path: Path) -> None:
    telemetry, path = only_file(tmp_path)
    configure(telemetry)
    events.emit(events.JOB_RETRIED, job="7", actor="sales.record", attempt=2, delay_s=1.5, error="TimedOut")
    (line,) = lines_of(path)
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "warning",
        "event": "job.retried",
        "job": "7",
        "actor": "sales.record",
        "attempt": 2,
        "delay_s": 1.5,
        "error": "TimedOut",
        "process": "worker",
        "pid": os.getpid(),
    }


def test_what_is_below_the_level_is_neither_written_nor_wanted(configure: Configure, tmp_path: Path) -> None:
    telemetry, path = only_file(tmp_path, log_level="warning")
    configure(telemetry)
    events.emit(events.ONCE_HIT, job="1")
    structlog.get_logger().info("quiet")
    assert not events.wanted(events.ONCE_HIT)
    assert lines_of(path) == []


def test_an_actors_own_line_carries_what_was_bound(configure: Configure, tmp_path: Path) -> None:
    telemetry, path = only_file(tmp_path)
    configure(telemetry)
    structlog.get_logger().bind(job="7").info("charged", amount="12.50", card_token="hunter22")
    (line,) = lines_of(path)
    assert (line["event"], line["job"], line["amount"]) == ("charged", "7", "12.50")
    assert "hunter22" not in path.read_text()


def test_p51_a_traceback_shows_no_values_of_local_variables(configure: Configure, tmp_path: Path) -> None:
    telemetry, path = only_file(tmp_path)
    configure(telemetry)
    card = "".join(["4111", "1111"])
    try:
        raise ValueError("refused")
    except ValueError:
        structlog.get_logger().exception("charge.failed")
    (line,) = lines_of(path)
    assert line["exception"].endswith("ValueError: refused")
    assert card not in path.read_text()


def test_what_libraries_say_comes_in_the_same_lines(configure: Configure, tmp_path: Path) -> None:
    telemetry, path = only_file(tmp_path)
    configure(telemetry)
    logging.getLogger("somebody.elses").warning("connection %s lost", "amqp://u:hunter22@h/")
    broken = logging.LogRecord("odd", 35, "odd.py", 7, "%s %s", ("one",), None)
    logs.LibraryHandler().emit(broken)
    first, second = lines_of(path)
    assert first["event"] == "connection amqp://u:***@h/ lost"
    assert first["logger"] == "somebody.elses"
    assert "unreadable record" in second["event"]


def test_a_field_named_like_a_lines_own_does_not_hide_it(configure: Configure, tmp_path: Path) -> None:
    telemetry, path = only_file(tmp_path)
    configure(telemetry)
    events.emit(events.ONCE_HIT, event="x", level="y", pid=1)
    (line,) = lines_of(path)
    assert (line["event"], line["event_"], line["level_"], line["pid_"]) == ("once.hit", "x", "y", 1)


def test_configuring_again_replaces_the_log(configure: Configure, tmp_path: Path) -> None:
    telemetry, path = only_file(tmp_path)
    configure(telemetry)
    configure(telemetry)
    events.emit(events.ONCE_HIT, job="1")
    logging.getLogger("x").warning("y")
    assert [line["event"] for line in lines_of(path)] == ["once.hit", "y"]


def test_a_pipe_gets_json_and_a_production_terminal_too(configure: Configure, pipe: tuple[int, int]) -> None:
    ours, theirs = pipe
    configure(Telemetry(), descriptor=theirs)
    events.emit(events.ONCE_HIT, job="1")
    assert json.loads(os.read(ours, LINE_LIMIT))["event"] == "once.hit"
    leader, terminal = os.openpty()
    try:
        configure(Telemetry(), descriptor=terminal, profile="production")
        events.emit(events.ONCE_HIT, job="1")
        assert json.loads(os.read(leader, LINE_LIMIT))["event"] == "once.hit"
        configure(Telemetry(), descriptor=terminal)
        events.emit(events.ONCE_HIT, job="1")
        assert b"\x1b[" in os.read(leader, LINE_LIMIT)
    finally:
        logs.close()
        os.close(leader)
        os.close(terminal)


def test_p50_lines_of_many_processes_never_mix_in_a_pipe(pipe: tuple[int, int]) -> None:
    ours, theirs = pipe
    children = [
        subprocess.Popen([sys.executable, "-c", SHOUTER, name], stderr=theirs, stdout=subprocess.PIPE)
        for name in "abcd"
    ]
    written = bytearray()
    done = threading.Event()

    def read_all() -> None:
        os.set_blocking(ours, False)
        while not done.is_set() or _readable(ours):
            if _readable(ours):
                written.extend(os.read(ours, 65536))

    reader = threading.Thread(target=read_all)
    reader.start()
    try:
        dropped = sum(map(said, children))
    finally:
        done.set()
        reader.join(PATIENCE_S)
    check_whole(bytes(written), expected=4 * 300 - dropped)


def _readable(descriptor: int) -> bool:
    import select

    return bool(select.select([descriptor], [], [], 0.05)[0])


def test_p50_lines_of_many_processes_never_mix_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    children = [
        subprocess.Popen([sys.executable, "-c", SHOUTER, name, str(path)], stdout=subprocess.PIPE) for name in "abcd"
    ]
    assert list(map(said, children)) == [0] * 4
    check_whole(path.read_bytes(), expected=4 * 300)


def said(child: "subprocess.Popen[bytes]") -> int:
    """Return how many lines a shouter says it dropped."""
    try:
        return int(child.communicate(timeout=PATIENCE_S)[0])
    finally:
        child.kill()


def check_whole(written: bytes, expected: int) -> None:
    lines = written.splitlines()
    assert len(lines) == expected
    for line in lines:
        name, number, filling = line.split(b" ")
        assert filling == name * 3900, "a line was torn"
        assert 0 <= int(number) < 300


def test_p50_the_last_line_before_a_kill_is_not_lost(pipe: tuple[int, int]) -> None:
    ours, theirs = pipe
    program = "from smena.telemetry.line_writer import LineWriter; import os; w = LineWriter.shared(2)\n"
    program += "for n in range(10): w.write(b'%d\\n' % n)\nos.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", program], stderr=theirs, check=False).returncode == -signal.SIGKILL
    os.set_blocking(ours, False)
    assert os.read(ours, LINE_LIMIT).splitlines()[-1] == b"9"


def test_p50_a_reader_that_does_not_read_never_blocks_the_writer(configure: Configure, pipe: tuple[int, int]) -> None:
    ours, theirs = pipe
    configure(Telemetry(), descriptor=theirs)
    for number in range(2000):  # a pipe holds some 64 kB: without room the rest is given up, not waited for
        events.emit(events.ONCE_HIT, job=str(number), key="x" * 1000)
    os.set_blocking(ours, False)
    drained = bytearray(os.read(ours, 1 << 20))
    events.emit(events.ONCE_HIT, job="after")
    drained += eventually(lambda: os.read(ours, 1 << 20), errors=(BlockingIOError,))
    lines = [json.loads(line) for line in drained.splitlines()]
    written = [line for line in lines if line["event"] == "once.hit"]
    (lost,) = [line for line in lines if line["event"] == "log.dropped"]
    assert len(written) + lost["lines"] == 2001
    assert written[-1]["job"] == "after"


def test_p50_the_writers_patience_changes_nothing_for_others_on_that_pipe(pipe: tuple[int, int]) -> None:
    _, theirs = pipe
    writer = LineWriter.shared(theirs)
    assert os.get_blocking(theirs)
    writer.close()


def test_a_closed_pipe_or_a_full_disk_is_not_the_jobs_trouble(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    writer = LineWriter.shared(theirs)
    os.close(ours)
    assert not writer.write(b"nobody is there\n")
    os.close(theirs)
    writer.close()
    full = LineWriter.to_file(Path("/dev/full"))
    assert not full.write(b"no room\n")
    assert full.take_dropped() == 1
    full.close()


def test_a_socket_such_as_the_journals_is_written_to_without_waiting() -> None:
    import socket

    ours, theirs = socket.socketpair()
    with ours, theirs:
        writer = LineWriter.shared(theirs.fileno())
        assert writer.write(b"hello\n")
        assert ours.recv(100) == b"hello\n"
        while writer.write(b"x" * 4000 + b"\n"):
            pass
        assert writer.dropped == 1
        writer.close()
