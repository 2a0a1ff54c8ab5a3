"""Keep what each slot of a child runs in a memory-mapped file that outlives the child.

The child writes (`FlightRecorder`), anyone may read (`read`): the supervisor when the child died, drills, the operator.
Nothing is flushed: the pages belong to the kernel, so they are whole after SIGKILL too, and stale only if the machine
itself goes down.

File: a header (magic, version, slots, pid, link tick), then the sequence number of every slot, then the slots. A slot's
sequence is odd while it is being written; a reader takes the sequence before and after and tries again when it moved.
A slot that stays odd belongs to a child that was stopped or died between two stores, some hundred nanoseconds wide; it
is given as it is, marked ``torn``.

Writing is by a mapping, for it is hot; reading is not, for a reader must not die of SIGBUS where the file lacks a page.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from workers.process.folder import map_new_file

_MAGIC = b"SMFR"
_HEADER = struct.Struct("<4sIIIqQ")
"""Magic, version, slots, pid, time the file was made (unused by readers), link tick."""
_VERSION = 2
_TICK_WORD = 3
"""The link tick's place in the file counted in 8-byte words."""
_HEADER_BYTES = 64
_SLOT = struct.Struct("<dQ256s96s")
"""Started (Unix seconds; 0 = nothing runs), attempt, job id, actor; texts are UTF-8, cut, padded with NUL.

A job is found again by its id, so that is cut where no message could carry more."""
_SLOT_BYTES = 384
_THREAD = struct.Struct("<QQ")
_THREAD_AT = _SLOT.size
"""The native id and the Python ident (the one faulthandler prints) of the slot's thread."""
_SPINS = 20
_TORN_S = 0.1
"""How long one reading waits, over all slots, for writers that the kernel has put aside in the middle of a write."""


@dataclass(frozen=True, slots=True)
class Running:
    """One job that a slot ran when the file was read.

    ``since`` is in Unix seconds; ``thread_id`` the native id, ``thread_ident`` what `faulthandler` prints; both are 0
    for a slot that was never bound. ``torn`` marks a record caught in the middle of a write that never ended.
    """

    slot: int
    job_id: str
    actor: str
    attempt: int
    since: float
    thread_id: int
    thread_ident: int
    torn: bool = False


class FlightRecorder:
    """The writing side. Each slot has one writer at a time; different slots need no lock between them."""

    def __init__(self, path: Path, slots: int) -> None:
        """Make the file; raises `FolderRefused`."""
        self._map = map_new_file(path, _slots_at(slots) + slots * _SLOT_BYTES)
        self.path = path
        self.slots = slots
        self._words = memoryview(self._map).cast("Q")
        self._offsets = [_slots_at(slots) + slot * _SLOT_BYTES for slot in range(slots)]
        self._pack = _SLOT.pack_into
        self._seq_word = _HEADER_BYTES // 8
        _HEADER.pack_into(self._map, 0, _MAGIC, _VERSION, slots, os.getpid(), 0, 0)

    def bind(self, slot: int) -> None:
        """Say that the calling thread serves the slot; once per thread, not per job."""
        _THREAD.pack_into(self._map, self._offsets[slot] + _THREAD_AT, threading.get_native_id(), threading.get_ident())

    def enter(self, slot: int, job_id: str, actor: str, attempt: int, started_at: float) -> None:
        """Note that the slot runs a job since ``started_at`` (Unix seconds)."""
        words = self._words
        sequence = self._seq_word + slot
        words[sequence] = count = words[sequence] + 1
        self._pack(
            self._map,
            self._offsets[slot],
            started_at,
            attempt,
            job_id.encode("utf-8", "replace"),
            actor.encode("utf-8", "replace"),
        )
        words[sequence] = count + 1

    def leave(self, slot: int) -> None:
        """Note that the slot runs nothing; one aligned store, so that no reader sees half of it."""
        self._words[self._offsets[slot] >> 3] = 0

    def idle(self) -> bool:
        """Say whether no slot runs anything."""
        return not any(self._words[offset >> 3] for offset in self._offsets)

    @property
    def link_tick(self) -> int:
        """The link's last tick; a reader compares two looks."""
        return self._words[_TICK_WORD]

    @link_tick.setter
    def link_tick(self, tick: int) -> None:
        self._words[_TICK_WORD] = tick

    def close(self) -> None:
        """Let go of the file; it stays where it is for the supervisor."""
        self._words.release()
        self._map.close()


def read(path: Path) -> list[Running]:
    """Return what the slots ran, in slot order; what is absent or unfinished gives nothing."""
    try:
        with path.open("rb", buffering=0) as file:
            descriptor = file.fileno()
            slots, give_up_s = _checked_slots(descriptor), time.monotonic() + _TORN_S
            found = (_read_slot(descriptor, slots, slot, give_up_s) for slot in range(slots))
            return [running for running in found if running is not None]
    except FileNotFoundError:
        return []


def read_link_tick(path: Path) -> int | None:
    """Return the link's tick, or None when there is no such file."""
    try:
        with path.open("rb", buffering=0) as file:
            header = _piece(file.fileno(), _HEADER.size, 0)
    except FileNotFoundError:
        return None
    return int(_HEADER.unpack(header)[5]) if header[:4] == _MAGIC else None


def _slots_at(slots: int) -> int:
    return _HEADER_BYTES + slots * 8


def _piece(descriptor: int, size: int, at: int) -> bytes:
    """Read a piece of the file; what is missing reads as zeros, which say that nothing runs."""
    return os.pread(descriptor, size, at).ljust(size, b"\0")


def _checked_slots(descriptor: int) -> int:
    magic, version, slots, *_ = _HEADER.unpack(_piece(descriptor, _HEADER.size, 0))
    size = os.fstat(descriptor).st_size
    if magic != _MAGIC or version != _VERSION or size < _slots_at(slots) + slots * _SLOT_BYTES:
        return 0
    return int(slots)


def _read_slot(descriptor: int, slots: int, slot: int, give_up_s: float) -> Running | None:
    record, torn = _whole(descriptor, _HEADER_BYTES + slot * 8, _slots_at(slots) + slot * _SLOT_BYTES, give_up_s)
    since, attempt, job_id, actor = _SLOT.unpack_from(record)
    if since == 0:
        return None
    thread_id, thread_ident = _THREAD.unpack_from(record, _THREAD_AT)
    return Running(slot, _text(job_id), _text(actor), attempt, since, thread_id, thread_ident, torn)


def _whole(descriptor: int, sequence_at: int, at: int, give_up_s: float) -> tuple[bytes, bool]:
    """Return a slot's bytes, and whether they may be torn because its writer did not finish in time."""
    spin = 0
    while True:
        before = _piece(descriptor, 8, sequence_at)
        record = _piece(descriptor, _SLOT_BYTES, at)
        if not before[0] & 1 and _piece(descriptor, 8, sequence_at) == before:
            return record, False
        if spin >= _SPINS:
            if time.monotonic() > give_up_s:
                return record, True
            time.sleep(0.001)
        spin += 1


def _text(cut: bytes) -> str:
    return cut.rstrip(b"\0").decode("utf-8", "replace")
