"""Keep what each slot of a child runs in a memory-mapped file that outlives the child.

A job may break its process and return: it runs no more when the process dies of it, and its ack never leaves. So what
has ended is kept for a while, and `mark_break` notes when the process lost what it settles by.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Final

from workers.process.flightfile import (
    BREAK_WORD,
    HEADER,
    HEADER_BYTES,
    KEPT,
    MAGIC,
    SLOT,
    SLOT_BYTES,
    THREAD,
    TICK_WORD,
    VERSION,
    record_at,
    thread_at,
)
from workers.process.folder import map_new_file

_unix_s: Final = time.time
"""Taken now: a job may put another clock in its place."""


class FlightRecorder:
    """The writing side. Each slot has one writer at a time; different slots need no lock between them."""

    def __init__(self, path: Path, slots: int) -> None:
        """Make the file; raises `FolderRefused`."""
        self._map = map_new_file(path, record_at(slots, slots))
        self.path = path
        self.slots = slots
        self._words = memoryview(self._map).cast("Q")
        self._times = memoryview(self._map).cast("d")
        self._offsets = [record_at(slots, slot) for slot in range(slots)]
        self._ends = [0] * slots
        """Of each slot the word that says when its newest job ended; 0 before the first."""
        self._pack = SLOT.pack_into
        self._seq_word = HEADER_BYTES // 8
        HEADER.pack_into(self._map, 0, MAGIC, VERSION, slots, os.getpid(), 0.0, 0)

    def bind(self, slot: int) -> None:
        """Say that the calling thread serves the slot; once per thread, not per job."""
        at = thread_at(self.slots, slot)
        THREAD.pack_into(self._map, at, threading.get_native_id(), threading.get_ident())

    def enter(self, slot: int, job_id: str, actor: str, attempt: int, started_at: float) -> None:
        """Note that the slot runs a job since ``started_at`` (Unix seconds)."""
        words = self._words
        sequence = self._seq_word + slot
        words[sequence] = count = words[sequence] + 1
        at = self._offsets[slot] + (count >> 1) % KEPT * SLOT_BYTES
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
        if not self._times[BREAK_WORD]:
            self._times[BREAK_WORD] = _unix_s()

    @property
    def link_tick(self) -> int:
        """The link's last tick; a reader compares two looks."""
        return self._words[TICK_WORD]

    @link_tick.setter
    def link_tick(self, tick: int) -> None:
        self._words[TICK_WORD] = tick

    def close(self) -> None:
        """Let go of the file; it stays where it is for the supervisor."""
        self._words.release()
        self._times.release()
        self._map.close()
