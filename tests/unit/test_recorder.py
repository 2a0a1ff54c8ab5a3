"""The flight recorder: written hot, read from outside at any moment."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.eventually import eventually
from workers.process import flightfile
from workers.process.flightfile import KEPT, Running, read, read_begun, read_break, read_link_tick
from workers.process.recorder import FlightRecorder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give a place for the file."""
    return tmp_path / "1.flight"


@pytest.fixture
def recorder(path: Path) -> Iterator[FlightRecorder]:
    """Give a recorder of four slots."""
    recorder = FlightRecorder(path, 4)
    yield recorder
    recorder.close()


def test_what_entered_is_read_until_it_leaves(recorder: FlightRecorder, path: Path) -> None:
    recorder.bind(2)
    recorder.enter(2, "6f2b", "sales.record", 3, 1700000000.25)

    [running] = read(path)
    assert (running.slot, running.job_id, running.actor) == (2, "6f2b", "sales.record")
    assert (running.attempt, running.since) == (3, 1700000000.25)
    assert (running.thread_id, running.thread_ident) == (threading.get_native_id(), threading.get_ident())
    assert not recorder.idle()
    recorder.leave(2)
    assert read(path) == []
    assert recorder.idle()


def test_a_new_job_in_a_slot_keeps_its_thread(recorder: FlightRecorder, path: Path) -> None:
    recorder.bind(0)
    for number in range(3):
        recorder.enter(0, f"job-{number}", "a.b", 1, 1.0)
        recorder.leave(0)
    recorder.enter(0, "x", "a.b", 1, 1.0)

    assert [(job.job_id, job.thread_id) for job in read(path)] == [("x", threading.get_native_id())]


def test_p21_what_ended_is_kept_for_as_many_jobs_as_a_slot_has_records(recorder: FlightRecorder, path: Path) -> None:
    recorder.bind(1)
    for number in range(KEPT + 3):
        recorder.enter(1, f"job-{number}", "a.b", 1, 5.0)
        recorder.leave(1)
    recorder.enter(1, "now", "a.b", 1, 6.0)

    begun = {job.job_id: job for job in read_begun(path)}
    assert set(begun) == {"now", *(f"job-{number}" for number in range(4, KEPT + 3))}
    assert begun["job-4"].ended_at > begun["job-4"].since == 5.0
    assert begun["job-4"].thread_id == threading.get_native_id()
    assert begun["now"].ended_at == 0
    assert [job.job_id for job in read(path)] == ["now"]


def test_the_moment_of_the_first_break_is_kept(recorder: FlightRecorder, path: Path) -> None:
    assert read_break(path) == 0
    before = time.time()
    recorder.mark_break()
    first = read_break(path)
    recorder.mark_break()
    assert before <= first == read_break(path)


def test_long_names_are_cut_and_stay_text(recorder: FlightRecorder, path: Path) -> None:
    recorder.enter(0, "j" * 500, "é" * 500, 1, 1.0)
    recorder.enter(1, "lone \ud800", "a.b", 1, 1.0)

    first, second = read(path)
    assert first.job_id == "j" * 256
    assert set(first.actor) == {"é"}
    assert second.job_id == "lone ?"


def test_the_link_tick_is_read_from_outside(recorder: FlightRecorder, path: Path) -> None:
    recorder.link_tick = 7
    assert read_link_tick(path) == recorder.link_tick == 7


def test_an_absent_empty_or_strange_file_gives_nothing(tmp_path: Path) -> None:
    absent, empty, strange = (tmp_path / name for name in ("absent", "empty", "strange"))
    empty.touch()
    strange.write_bytes(b"x" * 4096)

    assert [read(path) for path in (absent, empty, strange)] == [[], [], []]
    assert [read_link_tick(path) for path in (absent, strange)] == [None, None]


@pytest.mark.parametrize("kept_bytes", [0, 3, 30, 64, 500])
def test_a_file_that_is_cut_short_gives_nothing(recorder: FlightRecorder, path: Path, kept_bytes: int) -> None:
    recorder.enter(0, "x", "a.b", 1, 1.0)
    path.with_name("2.flight").write_bytes(path.read_bytes()[:kept_bytes])

    assert read(path.with_name("2.flight")) == []


def _read_for_ever(path: Path) -> None:
    while True:
        read(path)


def test_a_file_that_is_cut_while_it_is_read_ends_no_reader(path: Path) -> None:
    FlightRecorder(path, 500).close()
    whole = path.read_bytes()
    reader = multiprocessing.get_context("spawn").Process(target=_read_for_ever, args=(path,), daemon=True)
    reader.start()
    try:
        eventually(lambda: _has_open(reader.pid, path))
        for _ in range(300):
            path.write_bytes(whole)
        assert reader.is_alive()
    finally:
        reader.kill()
        reader.join()
        reader.close()


def _has_open(pid: int | None, path: Path) -> bool:
    return any(file.resolve() == path for file in Path(f"/proc/{pid}/fd").iterdir())


def test_a_record_that_is_half_written_is_told_as_torn(
    recorder: FlightRecorder, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_meanwhile = list[Running]()
    pack = recorder._pack

    def pack_and_look(*what: Any) -> None:
        pack(*what)
        read_meanwhile.extend(read(path))

    monkeypatch.setattr(recorder, "_pack", pack_and_look)
    recorder.enter(0, "x", "a.b", 1, 1.0)
    assert [job.torn for job in read_meanwhile] == [True]
    assert [job.torn for job in read(path)] == [False]


def test_a_record_that_changes_while_it_is_read_is_read_again(
    recorder: FlightRecorder, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder.enter(0, "before", "a.b", 1, 1.0)
    piece, left = flightfile._piece, ["after"]

    def piece_and_change(descriptor: int, size: int, at: int) -> bytes:
        found = piece(descriptor, size, at)
        if size == flightfile.SLOT_BYTES and left:
            recorder.enter(0, left.pop(), "a.b", 1, 1.0)
        return found

    monkeypatch.setattr(flightfile, "_piece", piece_and_change)
    assert [job.job_id for job in read(path)] == ["after"]


def test_a_record_that_was_written_over_while_it_was_read_is_not_taken_for_a_whole_one(
    recorder: FlightRecorder, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often: the slot comes back to the record between two pieces of each reading, as long as letters last."""
    recorder.enter(0, "a", "a", 1, 1.0)
    piece, letters, cut = flightfile._piece, list("bcdefghijklmnopqrstuvwxyz"), flightfile.SLOT.size - 96

    def piece_in_two(descriptor: int, size: int, at: int) -> bytes:
        if size != flightfile.SLOT_BYTES or not letters:
            return piece(descriptor, size, at)
        first, letter = piece(descriptor, cut, at), letters.pop()
        for _ in range(KEPT):
            recorder.enter(0, letter, letter, 1, 1.0)
        return first + piece(descriptor, size - cut, at + cut)

    monkeypatch.setattr(flightfile, "_piece", piece_in_two)
    assert [(job.job_id, job.actor, job.torn) for job in read(path)] == [("b", "b", False)]


def _write_for_ever(path: Path) -> None:
    recorder = FlightRecorder(path, 2)
    number = 0
    while True:
        number += 1
        letter = "abcdefghij"[number % 10]
        for slot in (0, 1):
            recorder.enter(slot, letter * 36, letter * 20, number, number + 0.5)


@pytest.fixture
def writer(path: Path) -> Iterator[int]:
    """Give the pid of a process that writes without pause."""
    process = multiprocessing.get_context("spawn").Process(target=_write_for_ever, args=(path,), daemon=True)
    process.start()
    assert process.pid is not None
    eventually(lambda: len(read(path)) == 2)
    yield process.pid
    process.kill()
    process.join()
    process.close()


def test_no_reader_takes_half_a_record_for_a_whole_one(writer: int, path: Path) -> None:
    seen = set()
    for _ in range(3000):
        for job in read(path):
            if job.torn:  # said, because the kernel put the writer aside in the middle for very long
                continue
            assert len(set(job.job_id)) == len(set(job.actor)) == 1
            assert job.job_id[0] == job.actor[0] == "abcdefghij"[job.attempt % 10]
            assert job.since == job.attempt + 0.5
            seen.add(job.attempt)
    assert len(seen) > 1


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_a_stopped_or_dead_writer_can_be_read(writer: int, path: Path, number: signal.Signals) -> None:
    os.kill(writer, number)
    eventually(lambda: _state(writer) in "TZ")

    jobs = read(path)
    assert read(path) == jobs
    assert [job.slot for job in jobs if not job.torn]


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
