"""The file in which a child keeps what its slots run: its layout, and how it is read from outside.

The child writes it (`FlightRecorder`), anyone may read: the supervisor when the child died, drills, the operator.
Nothing is flushed: the pages belong to the kernel, so they are whole after SIGKILL too, and stale only if the machine
itself goes down.

A header (magic, version, slots, pid, moment of the break, link tick), then the sequence number of every slot, then its
thread, then the records: of each slot those of the last `KEPT` jobs, in turn. A slot's sequence is odd while one is
being written; a reader takes the sequence before and after and tries again when it moved. A slot that stays odd belongs
to a child that was stopped or died between two stores, some hundred nanoseconds wide; its record is given as it is,
marked ``torn``.

A reader maps nothing, for it must not die of SIGBUS where the file lacks a page.
"""

from __future__ import annotations

import os
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")

MAGIC: Final = b"SMFR"
HEADER: Final = struct.Struct("<4sIIIdQ")
"""Magic, version, slots, pid, moment of the break (Unix seconds; 0 = none), link tick."""
VERSION: Final = 3
BREAK_WORD: Final = 2
TICK_WORD: Final = 3
"""Places in the file counted in 8-byte words."""
HEADER_BYTES: Final = 64
SLOT: Final = struct.Struct("<ddQ256s96s")
"""Started, ended (Unix seconds; 0 = not yet), attempt, job id, actor; texts are UTF-8, cut, padded with NUL.

A job is found again by its id, so that is cut where no message could carry more."""
SLOT_BYTES: Final = 384
THREAD: Final = struct.Struct("<QQ")
"""The native id and the Python ident (the one faulthandler prints) of the slot's thread."""
KEPT: Final = 8
"""Records of a slot, a power of two: what is short may end there several times before another thread is heard."""
_SPINS: Final = 20
_TORN_S: Final = 0.1
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

    def ran_s(self, now_s: float) -> float:
        """Return how long it ran, in seconds to a thousandth; up to ``now_s`` if it had not ended."""
        return round(max(0.0, (self.ended_at or now_s) - self.since), 3)


def thread_at(slots: int, slot: int) -> int:
    """Return where the thread of a slot stands."""
    return HEADER_BYTES + slots * 8 + slot * THREAD.size


def record_at(slots: int, slot: int, turn: int = 0) -> int:
    """Return where a record of a slot stands; that of the slot behind the last is the size of the file."""
    return thread_at(slots, slots) + (slot * KEPT + turn) * SLOT_BYTES


def read(path: Path) -> list[Running]:
    """Return what the slots ran, in slot order; what is absent or unfinished gives nothing."""
    return _read(path, _running, [])


def read_begun(path: Path) -> list[Running]:
    """Return all that are kept, whether they ended or not; of a process that has died."""
    return _read(path, _begun, [])


def read_break(path: Path) -> float:
    """Return the moment at which the process lost what it settles by (Unix seconds), or 0 if it did not."""
    header = _read(path, _header, None)
    return 0.0 if header is None else header[0]


def read_link_tick(path: Path) -> int | None:
    """Return the link's tick, or None when there is no such file."""
    header = _read(path, _header, None)
    return None if header is None else header[1]


def _read(path: Path, take: Callable[[int], T], absent: T) -> T:
    try:
        with path.open("rb", buffering=0) as file:
            return take(file.fileno())
    except FileNotFoundError:
        return absent


def _running(descriptor: int) -> list[Running]:
    slots, give_up_s = _checked_slots(descriptor), time.monotonic() + _TORN_S
    found = (_read_slot(descriptor, slots, slot, give_up_s) for slot in range(slots))
    return [job for job in found if job is not None and not job.ended_at]


def _begun(descriptor: int) -> list[Running]:
    slots = _checked_slots(descriptor)
    found = [_read_record(descriptor, slots, slot, turn) for slot in range(slots) for turn in range(KEPT)]
    return [job for job in found if job is not None]


def _header(descriptor: int) -> tuple[float, int] | None:
    """Return the moment of the break and the link's tick."""
    magic, *_, broken_at, tick = HEADER.unpack(_piece(descriptor, HEADER.size, 0))
    return (broken_at, tick) if magic == MAGIC else None


def _piece(descriptor: int, size: int, at: int) -> bytes:
    """Read a piece of the file; what is missing reads as zeros, which say that nothing runs."""
    return os.pread(descriptor, size, at).ljust(size, b"\0")


def _checked_slots(descriptor: int) -> int:
    magic, version, slots, *_ = HEADER.unpack(_piece(descriptor, HEADER.size, 0))
    size = os.fstat(descriptor).st_size
    if magic != MAGIC or version != VERSION or size < record_at(slots, slots):
        return 0
    return int(slots)


def _read_slot(descriptor: int, slots: int, slot: int, give_up_s: float) -> Running | None:
    record, torn = _whole(descriptor, slots, slot, give_up_s)
    return _job(descriptor, slots, slot, record, torn)


def _read_record(descriptor: int, slots: int, slot: int, turn: int) -> Running | None:
    return _job(descriptor, slots, slot, _piece(descriptor, SLOT_BYTES, record_at(slots, slot, turn)))


def _job(descriptor: int, slots: int, slot: int, record: bytes, torn: bool = False) -> Running | None:
    since, ended_at, attempt, job_id, actor = SLOT.unpack_from(record)
    if since == 0:
        return None
    thread_id, thread_ident = THREAD.unpack(_piece(descriptor, THREAD.size, thread_at(slots, slot)))
    return Running(slot, _text(job_id), _text(actor), attempt, since, thread_id, thread_ident, torn, ended_at)


def _whole(descriptor: int, slots: int, slot: int, give_up_s: float) -> tuple[bytes, bool]:
    """Return a slot's newest record, and whether it may be torn because its writer did not finish in time.

    A writer without pause has a newer one at each look; then one that it has not come back to since is whole too.
    """
    spin = 0
    while True:
        before = _sequence(descriptor, slot)
        record = _piece(descriptor, SLOT_BYTES, record_at(slots, slot, (max(0, before - 1) >> 1) % KEPT))
        written = _sequence(descriptor, slot) - before
        if not before & 1 and (written == 0 or (spin >= _SPINS and written < 2 * KEPT - 1)):
            return record, False
        if spin >= _SPINS:
            if time.monotonic() > give_up_s:
                return record, True
            time.sleep(0.001)
        spin += 1


def _sequence(descriptor: int, slot: int) -> int:
    return int.from_bytes(_piece(descriptor, 8, HEADER_BYTES + slot * 8), sys.byteorder)


def _text(cut: bytes) -> str:
    return cut.rstrip(b"\0").decode("utf-8", "replace")
