"""Keep what each slot of a child runs in a memory-mapped file that outlives the child.

The child writes (`FlightRecorder`), anyone may read (`read`): the supervisor when the child died, drills, the operator.
Nothing is flushed: the pages belong to the kernel, so they are whole after SIGKILL too, and stale only if the machine
itself goes down.

File: a header (magic, version, slots, pid, moment of the break, link tick), then the sequence number of every slot,
then its thread, then the records: of each slot those of the last `KEPT` jobs, in turn. A slot's sequence is odd while
one is being written; a reader takes the sequence before and after and tries again when it moved. A slot that stays odd
belongs to a child that was stopped or died between two stores, some hundred nanoseconds wide; its record is given as it
is, marked ``torn``.

A job may break its process and return: it runs no more when the process dies of it, and its ack never leaves. So what
has ended is kept for a while, and `mark_break` notes when the process lost what it settles by.

Writing is by a mapping, for it is hot; reading is not, for a reader must not die of SIGBUS where the file lacks a page.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from workers.process.folder import map_new_file

_MAGIC = b"SMFR"
_HEADER = struct.Struct("<4sIIIdQ")
"""Magic, version, slots, pid, moment of the break (Unix seconds; 0 = none), link tick."""
_VERSION = 3
_BREAK_WORD = 2
_TICK_WORD = 3
"""Places in the file counted in 8-byte words."""
_HEADER_BYTES = 64
_SLOT = struct.Struct("<ddQ256s96s")
"""Started, ended (Unix seconds; 0 = not yet), attempt, job id, actor; texts are UTF-8, cut, padded with NUL.

A job is found again by its id, so that is cut where no message could carry more."""
_SLOT_BYTES = 384
_THREAD = struct.Struct("<QQ")
"""The native id and the Python ident (the one faulthandler prints) of the slot's thread."""
KEPT = 8
"""Records of a slot, a power of two: what is short may end there several times before another thread is heard."""
RECENT_S = 1.0
"""How long after its end a job may still be what a process dies of; its ack leaves within some milliseconds."""
MOST_RECENT = 16
"""Of those that had ended, the last ones only: each is a suspect."""
_unix_s: Final = time.time
"""Taken now: a job may put another clock in its place."""
_SPINS = 20
_AFTER_ITS_END = " after the job had ended"
_TORN_S = 0.1
"""How long one reading waits, over all slots, for writers that the kernel has put aside in the middle of a write."""


@dataclass(frozen=True, slots=True)
class Running:
    """One job that a slot ran when the file was read.

    ``since`` is in Unix seconds; ``thread_id`` the native id, ``thread_ident`` what `faulthandler` prints; both are 0
    for a slot that was never bound. ``torn`` marks a record caught in the middle of a write that never ended.
    ``ended_at`` is 0 while it runs.
    """

    slot: int
    job_id: str
    actor: str
    attempt: int
    since: float
    thread_id: int
    thread_ident: int
    torn: bool = False
    ended_at: float = 0.0

    @property
    def key(self) -> tuple[str, int]:
        """Return the attempt's key."""
        return self.job_id, self.attempt


class FlightRecorder:
    """The writing side. Each slot has one writer at a time; different slots need no lock between them."""

    def __init__(self, path: Path, slots: int) -> None:
        """Make the file; raises `FolderRefused`."""
        self._map = map_new_file(path, _record_at(slots, slots))
        self.path = path
        self.slots = slots
        self._words = memoryview(self._map).cast("Q")
        self._times = memoryview(self._map).cast("d")
        self._offsets = [_record_at(slots, slot) for slot in range(slots)]
        self._ends = [0] * slots
        """Of each slot the word that says when its newest job ended; 0 before the first."""
        self._pack = _SLOT.pack_into
        self._seq_word = _HEADER_BYTES // 8
        _HEADER.pack_into(self._map, 0, _MAGIC, _VERSION, slots, os.getpid(), 0.0, 0)

    def bind(self, slot: int) -> None:
        """Say that the calling thread serves the slot; once per thread, not per job."""
        at = _thread_at(self.slots, slot)
        _THREAD.pack_into(self._map, at, threading.get_native_id(), threading.get_ident())

    def enter(self, slot: int, job_id: str, actor: str, attempt: int, started_at: float) -> None:
        """Note that the slot runs a job since ``started_at`` (Unix seconds)."""
        words = self._words
        sequence = self._seq_word + slot
        words[sequence] = count = words[sequence] + 1
        at = self._offsets[slot] + (count >> 1) % KEPT * _SLOT_BYTES
        self._ends[slot] = (at >> 3) + 1
        self._pack(
            self._map,
            at,
            started_at,
            0.0,
            attempt,
            job_id.encode("utf-8", "replace"),
            actor.encode("utf-8", "replace"),
        )
        words[sequence] = count + 1

    def leave(self, slot: int) -> None:
        """Note that the slot runs nothing; one aligned store, so that no reader sees half of it."""
        self._times[self._ends[slot]] = _unix_s()

    def idle(self) -> bool:
        """Say whether no slot runs anything."""
        return all(self._times[word] for word in self._ends if word)

    def mark_break(self) -> None:
        """Note the moment at which the process lost what it settles by; the first counts."""
        if not self._times[_BREAK_WORD]:
            self._times[_BREAK_WORD] = _unix_s()

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
        self._times.release()
        self._map.close()


def read(path: Path) -> list[Running]:
    """Return what the slots ran, in slot order; what is absent or unfinished gives nothing."""
    try:
        with path.open("rb", buffering=0) as file:
            descriptor = file.fileno()
            slots, give_up_s = _checked_slots(descriptor), time.monotonic() + _TORN_S
            found = (_read_slot(descriptor, slots, slot, give_up_s) for slot in range(slots))
            return [job for job in found if job is not None and not job.ended_at]
    except FileNotFoundError:
        return []


def read_begun(path: Path) -> list[Running]:
    """Return all that are kept, whether they ended or not; of a process that has died."""
    try:
        with path.open("rb", buffering=0) as file:
            descriptor = file.fileno()
            slots = _checked_slots(descriptor)
            found = [_read_record(descriptor, slots, slot, turn) for slot in range(slots) for turn in range(KEPT)]
            return [job for job in found if job is not None]
    except FileNotFoundError:
        return []


def read_break(path: Path) -> float:
    """Return the moment at which the process lost what it settles by (Unix seconds), or 0 if it did not."""
    try:
        with path.open("rb", buffering=0) as file:
            header = _piece(file.fileno(), _HEADER.size, 0)
    except FileNotFoundError:
        return 0.0
    return float(_HEADER.unpack(header)[4]) if header[:4] == _MAGIC else 0.0


def recent(begun: Sequence[Running], broken_at: float, dead_at: float) -> list[Running]:
    """Return of these jobs, those that had ended when the process was dead and may be what it died of.

    It may have died of one that ended within `RECENT_S` before it broke, or, not known to have been broken, before it
    was dead; and of one that ran when it broke. What began after that is none of it.
    """
    ended = sorted((job for job in begun if job.ended_at), key=lambda job: job.ended_at, reverse=True)
    at_s = broken_at or dead_at
    before = [job for job in ended if at_s - RECENT_S <= job.ended_at <= at_s]
    meanwhile = [job for job in ended if job.since <= at_s < job.ended_at]
    return list({job.key: job for job in meanwhile + before[:MOST_RECENT]}.values())


def read_link_tick(path: Path) -> int | None:
    """Return the link's tick, or None when there is no such file."""
    try:
        with path.open("rb", buffering=0) as file:
            header = _piece(file.fileno(), _HEADER.size, 0)
    except FileNotFoundError:
        return None
    return int(_HEADER.unpack(header)[5]) if header[:4] == _MAGIC else None


def after_its_end(how: str) -> str:
    """Say in words that a process died so after the job had ended there."""
    return how + _AFTER_ITS_END


def had_ended(how: str) -> bool:
    """Say whether these are the words of `after_its_end`."""
    return how.endswith(_AFTER_ITS_END)


def _thread_at(slots: int, slot: int) -> int:
    return _HEADER_BYTES + slots * 8 + slot * _THREAD.size


def _record_at(slots: int, slot: int, turn: int = 0) -> int:
    return _thread_at(slots, slots) + (slot * KEPT + turn) * _SLOT_BYTES


def _piece(descriptor: int, size: int, at: int) -> bytes:
    """Read a piece of the file; what is missing reads as zeros, which say that nothing runs."""
    return os.pread(descriptor, size, at).ljust(size, b"\0")


def _checked_slots(descriptor: int) -> int:
    magic, version, slots, *_ = _HEADER.unpack(_piece(descriptor, _HEADER.size, 0))
    size = os.fstat(descriptor).st_size
    if magic != _MAGIC or version != _VERSION or size < _record_at(slots, slots):
        return 0
    return int(slots)


def _read_slot(descriptor: int, slots: int, slot: int, give_up_s: float) -> Running | None:
    record, torn = _whole(descriptor, slots, slot, give_up_s)
    return _job(descriptor, slots, slot, record, torn)


def _read_record(descriptor: int, slots: int, slot: int, turn: int) -> Running | None:
    return _job(descriptor, slots, slot, _piece(descriptor, _SLOT_BYTES, _record_at(slots, slot, turn)))


def _job(descriptor: int, slots: int, slot: int, record: bytes, torn: bool = False) -> Running | None:
    since, ended_at, attempt, job_id, actor = _SLOT.unpack_from(record)
    if since == 0:
        return None
    thread_id, thread_ident = _THREAD.unpack(_piece(descriptor, _THREAD.size, _thread_at(slots, slot)))
    return Running(slot, _text(job_id), _text(actor), attempt, since, thread_id, thread_ident, torn, ended_at)


def _whole(descriptor: int, slots: int, slot: int, give_up_s: float) -> tuple[bytes, bool]:
    """Return a slot's newest record, and whether it may be torn because its writer did not finish in time.

    A writer without pause has a newer one at each look; then one that it has not come back to since is whole too.
    """
    spin = 0
    while True:
        before = _sequence(descriptor, slot)
        record = _piece(descriptor, _SLOT_BYTES, _record_at(slots, slot, (max(0, before - 1) >> 1) % KEPT))
        written = _sequence(descriptor, slot) - before
        if not before & 1 and (written == 0 or (spin >= _SPINS and written < 2 * KEPT - 1)):
            return record, False
        if spin >= _SPINS:
            if time.monotonic() > give_up_s:
                return record, True
            time.sleep(0.001)
        spin += 1


def _sequence(descriptor: int, slot: int) -> int:
    return int.from_bytes(_piece(descriptor, 8, _HEADER_BYTES + slot * 8), sys.byteorder)


def _text(cut: bytes) -> str:
    return cut.rstrip(b"\0").decode("utf-8", "replace")
