"""`smena debug` where several fleets of a user have a child of the same name."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner

from workers.cli.debug import debug
from workers.supervisor.state_file import StateFile
from workers.supervisor.whereabouts import FOLDER_PREFIX

Children = dict[Path, int]


@pytest.fixture
def children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Children]:
    """Give the state folders of two supervisors, and who is worker-0 there: a child of ours, and this process."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("SMENA_SUPERVISOR_STATE_DIR", raising=False)
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    pids = {tmp_path / f"{FOLDER_PREFIX}{name}": pid for name, pid in (("one", other.pid), ("two", os.getpid()))}
    with ExitStack() as held, other:
        for folder, pid in pids.items():
            state = StateFile(folder)
            state.take()
            held.callback(state.release)
            state.write({"pid": os.getpid(), "roles": {"worker": {"0": pid}}})
        yield pids


def test_a_name_that_several_fleets_have_is_told_with_their_folders(children: Children) -> None:
    told = CliRunner().invoke(debug, ["memory", "worker-0"])
    assert told.exit_code == 1
    first, *lines = told.output.splitlines()
    assert first == "Error: worker-0 names several; give a process id, or --state-dir:"
    assert lines == [f"  {pid} of the supervisor in {folder}" for folder, pid in children.items()]


@pytest.mark.parametrize("way", ["pid", "option", "setting"])
def test_one_of_several_is_found_by_its_pid_or_its_folder(
    children: Children, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, pid = list(children.items())[1]
    if way == "setting":
        monkeypatch.setenv("SMENA_SUPERVISOR_STATE_DIR", str(folder))
    words = {"pid": [str(pid)], "option": ["worker-0", "--state-dir", str(folder)], "setting": ["worker-0"]}[way]
    told = CliRunner().invoke(debug, ["memory", *words])
    assert told.exit_code == 0, told.output
    assert "Rss" in told.output
