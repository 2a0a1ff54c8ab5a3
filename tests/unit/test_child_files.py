"""A child's files in the supervisor's folder: their room is taken at once, or they are refused in one sentence."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from smena.settings import Settings
from smena.telemetry import events
from tests.fixtures.fix_events import Listen
from workers.process.faultfile import FaultFile
from workers.process.folder import FolderRefused, map_new_file
from workers.process.lastlines import LastLines
from workers.process.orders import Orders
from workers.process.recorder import FlightRecorder
from workers.process.stackfile import StackFile
from workers.wiring import cell


def test_a_mapped_file_has_all_its_room_before_the_first_store(tmp_path: Path) -> None:
    path, size = tmp_path / "1.flight", 64 * 4096
    with map_new_file(path, size):
        told = path.stat()
    assert told.st_size == size
    assert told.st_blocks * 512 >= size  # a page without a block is SIGBUS where the disk has none left


@pytest.mark.parametrize(
    "make",
    [FaultFile, StackFile, LastLines, lambda path: FlightRecorder(path, 4)],
    ids=["fault", "stacks", "lines", "flight"],
)
def test_a_file_that_cannot_be_made_is_refused_by_its_folder(make: Callable[[Path], object], tmp_path: Path) -> None:
    with pytest.raises(FolderRefused) as refused:
        make(tmp_path / "gone" / "1.file")
    assert str(refused.value) == f"no file of a child can be made in {tmp_path}/gone: No such file or directory"


def test_a_child_that_is_asked_for_its_stacks_on_a_full_disk_goes_on() -> None:
    stacks = StackFile(Path("/dev/full"))
    try:
        stacks.write()
    finally:
        stacks.close()


def test_a_cell_that_can_keep_no_files_says_why(tmp_path: Path, listen: Listen) -> None:
    orders = Orders(role="worker", module="m", post=0, supervisor_pid=1, state_dir=str(tmp_path / "gone"))
    told = listen(events.LOOP_FAILED)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        cell._live(orders, Settings(), theirs)
    [one] = told
    refusal = f"FolderRefused: no file of a child can be made in {tmp_path}/gone: No such file or directory"
    assert one.fields["error"] == refusal
