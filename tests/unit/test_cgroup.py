"""A delegated control group is found, made ready and used; where there is none it is said why.

The kernel's files are played by plain ones: they take what is written, and bound nothing.
"""

import os
from pathlib import Path

import pytest

from workers.process import cgroup


@pytest.fixture
def group(tmp_path: Path) -> Path:
    """Give a group with a memory controller, in which only this process lives."""
    group = tmp_path / "sys" / "service"
    group.mkdir(parents=True)
    (group / "cgroup.controllers").write_text("cpu memory pids\n")
    (group / "cgroup.procs").write_text(f"{os.getpid()}\n")
    return group


@pytest.fixture
def process(tmp_path: Path, group: Path) -> Path:
    """Give the folder of this process in `/proc`, which sees its group as the topmost."""
    process = tmp_path / "self"
    process.mkdir()
    (process / "cgroup").write_text("4:memory:/old\n0::/\n")
    old = "30 23 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    (process / "mountinfo").write_text(f"{old}31 23 0:27 / {group} rw - cgroup2 cgroup2 rw\n")
    return process


def test_the_topmost_group_of_a_name_space_is_taken_over(process: Path, group: Path) -> None:
    assert cgroup.take_over(process) == cgroup.Delegated(str(group), f"control group {group}")
    assert (group / "smena-fleet" / "cgroup.procs").read_text() == str(os.getpid())
    assert (group / "cgroup.subtree_control").read_text() == "+memory"


def test_a_group_right_above_that_systemd_has_marked_is_taken_over(
    process: Path, group: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getxattr", lambda path, _mark: b"1" if Path(path) == group else b"")
    (process / "cgroup").write_text("0::/service/main\n")
    (process / "mountinfo").write_text(f"31 23 0:27 / {group.parent} rw shared:9 - cgroup2 cgroup2 rw\n")
    (group / "cgroup.procs").write_text("")
    assert cgroup.take_over(process).folder == str(group)
    assert not (group / "smena-fleet").exists()


@pytest.mark.parametrize(
    ("file", "content", "why"),
    [
        ("self/cgroup", "4:memory:/old\n", "no control groups of version 2 are mounted"),
        ("self/cgroup", "0::/service\n", "is not delegated"),
        ("sys/service/cgroup.controllers", "cpu hugetlb\n", "no memory controller"),
        ("sys/service/cgroup.procs", f"1\n{os.getpid()}\n", "other processes live in the group"),
    ],
    ids=["no groups", "not delegated", "no controller", "others"],
)
def test_what_is_not_ours_is_left_alone_and_it_is_said_why(
    tmp_path: Path, process: Path, group: Path, file: str, content: str, why: str
) -> None:
    (tmp_path / file).write_text(content)
    found = cgroup.take_over(process)
    assert not found.folder
    assert why in found.said
    assert not [*group.glob("smena-*")]
    assert not (group / "cgroup.subtree_control").exists()


def test_this_machine_is_looked_at_without_harm() -> None:
    """Whatever runs the tests: a test run is no fleet, others live in its group."""
    assert cgroup._own_group(Path("/proc/self"))
