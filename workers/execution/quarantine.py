"""Run suspects apart from everybody else, until it is known which one kills.

Suspects of one death are split in halves, each half runs in a fresh process (`Cell`), and the half that dies is split
again, at last into single ones (`Verdicts`): so one poison message kills at most 1 + ceil(log2(n)) processes, n being
how many ran beside it, itself included (2 where it was alone). The worker that holds the messages is never at risk.

What cannot be tried now (no process can be had) waits; a drain hands back what has not begun and waits for the rest.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from smena.clock import Clock, Deadline
from smena.lifecycle import Loop
from smena.records.strike import Strike
from smena.telemetry import events
from workers.execution.cell import Cell, Suspect
from workers.execution.cells import Cells
from workers.execution.verdicts import Group, Verdicts, by_death
from workers.middleware.attempt import Attempt

MOST_CELLS: Final = 12
"""Cells of one worker at a time: while the innocent of 1,000 run on apart, the eleven steps to the one that is not."""
GATHER_S: Final = 0.05
"""How long the suspects of one death are waited for before they are split."""
IDLE_S: Final = 0.5
KEPT_S: Final = 60.0
"""How long the program that forks cells is kept when there is nobody to try."""
_KILLED_S: Final = 2.0


class Quarantine(Loop):
    """The suspects of one worker process: those that wait, and those in cells. A service and a runner."""

    def __init__(self, cells: Cells, verdicts: Verdicts, clock: Clock) -> None:
        super().__init__("quarantine", self._round, events.loop_failed)
        self._cells = cells
        self._verdicts = verdicts
        self._clock = clock
        self._arrived: deque[Suspect] = deque()
        self._groups: deque[Group] = deque()
        self._trials: dict[Cell, threading.Thread] = {}
        self._changing = threading.Lock()
        self._needed_s = 0.0
        self._is_expected = False
        self._cue = threading.Event()
        self._over = threading.Event()

    def put(self, attempt: Attempt, strikes: Sequence[Strike]) -> None:
        """Take a suspect; from any thread. After `hand_back` it goes back to the broker."""
        with self._changing:
            if not self._over.is_set():
                self._arrived.append(Suspect(attempt, strikes))
                self._cue.set()
                return
        attempt.delivery.give_back()

    def expect(self) -> None:
        """Get ready for suspects: somebody died, and it is still being written down who ran there; from any thread."""
        self._is_expected = True
        self._cue.set()

    def waiting(self) -> int:
        """Return how many have not begun."""
        return len(self._arrived) + sum(map(len, list(self._groups)))

    def running(self) -> int:
        """Return how many are in cells."""
        return sum(len(cell.left) for cell in list(self._trials))

    def hand_back(self) -> int:
        """Give what has not begun back to the broker; return how many. Nobody is tried after that."""
        self.ask_to_stop()
        with self._changing:
            self._over.set()
            waiting = [*self._arrived, *(suspect for group in self._groups for suspect in group)]
            self._arrived.clear()
            self._groups.clear()
        self._cue.set()
        _give_back(waiting)
        return len(waiting)

    def finish(self, deadline: Deadline) -> bool:
        """Hand back what waits and wait for the cells; what is left at the deadline goes back as it came."""
        self.hand_back()
        ended = super().stop(deadline)
        for trial in list(self._trials.values()):
            trial.join(deadline.left_s())
        late = dict(self._trials)
        for cell in late:
            cell.kill()
        for trial in late.values():
            trial.join(_KILLED_S)
        return ended and not late

    def stop(self, deadline: Deadline) -> bool:
        """Finish, and end the program that forks cells."""
        ended = self.finish(deadline)
        self._cells.end()
        return ended

    # --- the loop -----------------------------------------------------------------------------------

    def _round(self, stopping: threading.Event) -> None:
        self._cue.wait(IDLE_S)
        self._cue.clear()
        if self._arrived:
            stopping.wait(GATHER_S)
            self._sort()
        expected, self._is_expected = self._is_expected, False
        if expected or self._groups or self._trials:
            self._needed_s = self._clock.monotonic()
        elif self._clock.monotonic() - self._needed_s > KEPT_S:
            self._cells.end()
        if expected:
            self._cells.are_to_be_had(stopping)
        while self._groups and len(self._trials) < MOST_CELLS and self._cells.are_to_be_had(stopping):
            self._begin()

    def _sort(self) -> None:
        """Put together those that died together last, in halves."""
        with self._changing:
            self._groups += by_death(self._arrived)
            self._arrived.clear()

    def _begin(self) -> None:
        """Try the next group; those whose connection is gone the broker has given to another."""
        with self._changing:
            waiting = self._groups.popleft() if self._groups else ()
        group = [suspect for suspect in waiting if suspect.attempt.delivery.alive()]
        if not group:
            return
        try:
            cell = self._cells.bear(group)
        except BaseException:
            self._put_back([tuple(group)])
            raise
        trial = threading.Thread(target=self._try, args=(cell,), name=f"cell-{cell.pid}", daemon=True)
        self._trials[cell] = trial
        trial.start()

    def _put_back(self, groups: Sequence[Group]) -> None:
        with self._changing:
            if not self._over.is_set():
                self._groups += groups
                return
        _give_back(suspect for group in groups for suspect in group)

    # --- one cell, on a thread of its own -------------------------------------------------------------

    def _try(self, cell: Cell) -> None:
        try:
            cell.hold(self._verdicts.settle)
            death = cell.end(self._cells.reap)
            if cell.condemned:
                _give_back(cell.left.values())
            elif cell.stuck is not None:
                self._put_back(self._verdicts.after_stuck(cell.stuck, cell))
            elif death is not None:
                if not death.ran:
                    self._over.wait(IDLE_S)
                self._put_back(self._verdicts.after_death(cell, death))
        except Exception as error:  # noqa: BLE001 - the seam of this thread: its suspects go back as they came
            events.loop_failed(self.name, error)
            cell.kill()
            _give_back(cell.left.values())
        finally:
            del self._trials[cell]
            self._cue.set()


def _give_back(suspects: Iterable[Suspect]) -> None:
    for suspect in suspects:
        suspect.attempt.delivery.give_back()
