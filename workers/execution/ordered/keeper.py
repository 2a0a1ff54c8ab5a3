"""Write what the desks have decided, and let go on what was written: the only writer of a process's held keys.

One transaction for each partition and round. What cannot be written now waits, unacked, and is tried again; a term that
is over means that the partition is another's: its desk is closed for good and nothing of it is acked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from smena.clock import Clock
from smena.errors import TermLost
from smena.lifecycle import Loop
from smena.records.held_keys import HeldKeys
from smena.telemetry import events
from smena.telemetry.plain_text import error_text
from workers.execution.ordered.desk import Desk

IDLE_S: Final = 1.0
"""How often it is looked for keys that an operator has let go on, and for crowded ones."""


class Keeper(Loop):
    """The loop over a process's desks; a service."""

    def __init__(self, held_keys: HeldKeys, desks: Callable[[], Sequence[Desk]], clock: Clock, crowd: int) -> None:
        super().__init__("key-keeper", self._round, events.loop_failed)
        self._held_keys = held_keys
        self._desks = desks
        self._clock = clock
        self._crowd = crowd
        self._cue = threading.Event()
        self._opening: list[tuple[Desk, Callable[[], None]]] = []
        self._leave: Callable[[Desk, Callable[[], None]], None] = _not_set
        self._look_at_s = 0.0
        self._crowded: set[tuple[str, str]] = set()

    def cue(self) -> None:
        """Have it look soon; from any thread."""
        self._cue.set()

    def on_leave(self, leave: Callable[[Desk, Callable[[], None]], None]) -> None:
        """Have ``leave`` called for a desk at which nothing is to be done any more."""
        self._leave = leave

    def open(self, desk: Desk, opened: Callable[[], None]) -> None:
        """Load what is held of a partition, then call ``opened``; from any thread."""
        self._opening.append((desk, opened))
        self._cue.set()

    def _round(self, _stopping: threading.Event) -> None:
        self._cue.wait(self._rest_s())
        self._cue.clear()
        self._open()
        desks = self._desks()
        failure = None
        for desk in desks:
            desk.silence()
            try:
                self._write(desk)
            except Exception as error:  # noqa: BLE001 - told, and raised below: one partition stops no other
                events.emit(events.KEY_NOT_WRITTEN, **_facts(desk), error=error_text(error))
                failure = error
            if (done := desk.leaves()) is not None:
                self._leave(desk, done)
        self._look(desks)
        if failure is not None:
            self._cue.set()
            raise failure

    def _open(self) -> None:
        while self._opening:
            desk, opened = self._opening[0]
            if desk.alive:
                waiting, parked = self._held_keys.load(desk.place)
                desk.load(waiting, parked)
                opened()
                desk.hold_when_full()
            self._opening.pop(0)

    def _write(self, desk: Desk) -> None:
        draft = desk.take()
        if not draft:
            return
        try:
            written = self._held_keys.write(desk.place, draft.changes())
        except TermLost:
            desk.lose()
            events.emit(events.KEY_STALE_WRITE, **_facts(desk))
            return
        except Exception:
            desk.failed(draft)
            raise
        desk.written(draft, written)

    def _rest_s(self) -> float:
        now_s = self._clock.monotonic()
        due_s = min((desk.next_due_s() for desk in self._desks()), default=now_s + IDLE_S)
        return min(IDLE_S, max(0.0, due_s - now_s))

    def _look(self, desks: Sequence[Desk]) -> None:
        """See what operators have let go on, and which keys crowd the others."""
        now_s = self._clock.monotonic()
        if now_s < self._look_at_s:
            return
        self._look_at_s = now_s + IDLE_S
        crowded: set[tuple[str, str]] = set()
        waiting_in: set[str] = set()
        for desk in desks:
            held, _parked, crowds = desk.look(self._crowd)
            if held:
                waiting_in.add(desk.place.queue)
            for key, waiting in crowds.items():
                crowded.add((desk.place.queue, key))
                if (desk.place.queue, key) not in self._crowded:
                    events.emit(events.KEY_HOT, key=key, waiting=waiting, **_facts(desk))
        self._crowded = crowded
        for queue in waiting_in:
            keys = [waiting.key for waiting in self._held_keys.released(queue)]
            for desk in desks:
                if desk.place.queue == queue and desk.release(keys):
                    desk.recount(self._held_keys.count(desk.place))
                    self._cue.set()

    def hot_keys(self) -> dict[str, float]:
        """Return how many keys of each queue crowd the others of their partitions."""
        counted: dict[str, float] = {}
        for queue, _key in self._crowded:
            counted[queue] = counted.get(queue, 0) + 1
        return counted


def _facts(desk: Desk) -> dict[str, object]:
    return {"queue": desk.place.queue, "partition": desk.place.partition, "term": desk.place.term.number}


def _not_set(_desk: Desk, _done: Callable[[], None]) -> None:
    raise RuntimeError("nobody was named who lets partitions go")
