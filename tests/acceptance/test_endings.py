"""A drill or a bench that is ended by a signal leaves no service and no process."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.fixtures.eventually import eventually
from tests.fixtures.processes import those_of
from workers.local.services import LocalServices

SETUP_S = 120


@pytest.mark.timeout(300)
def test_p11_a_drill_that_is_ended_leaves_no_process(tmp_path: Path) -> None:
    with started(tmp_path, tmp_path / "drill" / "services", "workers.cli", "drill", "run", "kill-worker") as drill:
        under_way = tmp_path / "drill" / "runs"
        eventually(lambda: [*under_way.glob("*/fleet-0/events.jsonl")] or drill.poll() is not None, SETUP_S)
        drill.send_signal(signal.SIGTERM)
        output, _ = drill.communicate()
        assert (drill.returncode, those_of(tmp_path)) == (128 + signal.SIGTERM, {}), output


@pytest.mark.timeout(300)
def test_p11_a_bench_that_is_ended_leaves_no_process(tmp_path: Path) -> None:
    with started(tmp_path, tmp_path, "benchmarks", "drain", "--only", "smena") as bench:
        eventually(
            lambda: "benchmarks.sending" in " ".join(those_of(tmp_path).values()) or bench.poll() is not None, SETUP_S
        )
        bench.send_signal(signal.SIGHUP)
        output, _ = bench.communicate()
        assert (bench.returncode, those_of(tmp_path)) == (128 + signal.SIGHUP, {}), output


@contextmanager
def started(folder: Path, services: Path, *command: str) -> "Iterator[subprocess.Popen[str]]":
    """Start a program with services of its own below the folder; what it has left is ended here."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SMENA_")}
    program = subprocess.Popen(
        [sys.executable, "-P", "-m", *command],
        env={**environ, "SMENA_LOCAL_DIR": str(folder), "TMPDIR": str(folder)},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        yield program
    finally:
        program.kill()
        program.wait()
        LocalServices(services, {}).down()
        for pid in those_of(folder):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
