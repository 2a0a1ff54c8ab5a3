"""`smena debug` on real children, with py-spy and without it."""

import os
import re
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.acceptance.fleet.grip import FleetGrip
from workers.cli.debug import debug
from workers.supervisor import probe


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[FleetGrip]:
    """Give a fleet that is ready, and leave no process of it."""
    grip = FleetGrip(tmp_path)
    grip.start(forked=1)
    grip.wait_ready()
    yield grip
    grip.clear()


@pytest.fixture(params=["py-spy", "signal"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let the child be looked into with py-spy, and by its own means where that is not installed."""
    if request.param == "signal":
        monkeypatch.setattr(shutil, "which", lambda *_args, **_kwargs: None)
    else:
        assert shutil.which("py-spy", path=str(Path(sys.executable).parent))
    return str(request.param)


def run(fleet: FleetGrip, *arguments: str) -> Result:
    return CliRunner().invoke(debug, [*arguments, "--state-dir", str(fleet.folder)])


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("by", ["pid", "post", "job"])
def test_stacks_show_where_each_thread_is_and_what_it_runs(fleet: FleetGrip, by: str) -> None:
    pid = fleet.pids()["0"]

    result = run(fleet, "stacks", {"pid": str(pid), "post": "forked-0", "job": "job-0-1"}[by])

    assert result.exit_code == 0, result.output
    assert f"forked-0, process {pid}" in result.output
    assert "slot 1 runs pretend.work job-0-1 attempt 1" in result.output
    assert "pretender.py" in result.output
    assert "_listen" in result.output


@pytest.mark.usefixtures("way")
def test_a_profile_names_where_the_time_goes(fleet: FleetGrip, tmp_path: Path) -> None:
    result = run(fleet, "profile", "forked-0", "--seconds", "1", "--output", str(tmp_path / "stacks"))

    assert result.exit_code == 0, result.output
    assert re.search(r"^ *\d+\.\d %  _work \(.*pretender\.py:\d+\)$", result.output, re.MULTILINE)
    assert re.search(r"^\S.*;_work \(.*pretender\.py:\d+\) \d+$", (tmp_path / "stacks").read_text(), re.MULTILINE)


def test_memory_tells_what_a_child_holds_and_what_has_grown(fleet: FleetGrip) -> None:
    result = run(fleet, "memory", "forked-0", "--seconds", "0.1")

    assert result.exit_code == 0, result.output
    for name in ("Rss", "Pss", "VmHWM", "Threads", "Descriptors"):
        assert re.search(rf"^{name} +\d+ +[+-]\d+$", result.output, re.MULTILINE)


def test_a_stopped_child_is_said_not_to_answer(fleet: FleetGrip, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_args, **_kwargs: None)
    monkeypatch.setattr(probe, "_ANSWER_S", 0.2)
    os.kill(fleet.pids()["0"], signal.SIGSTOP)

    result = run(fleet, "stacks", "forked-0")

    assert result.exit_code == 1
    assert "is it stopped" in result.output


def test_a_target_that_is_nobody_here_is_refused(fleet: FleetGrip) -> None:
    result = run(fleet, "stacks", "1")
    assert result.exit_code == 1
    assert "no child of a supervisor here is, or runs, 1" in result.output
