"""Hold the worker's end of one cell: a fresh process in which suspects run apart from everybody else.

The cell runs a job as any worker does, through the same rings, and tells how its delivery was settled there; the
worker, which holds the message and lives, settles it so. A cell whose interpreter is held (`Standstill`), or that was
stopped for too long (`Stoppage`), is ended: it cannot tell of it itself. Who stopped it has killed it, for the verdict.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from smena.records.strike import Strike, Why
from workers.execution.cell_frames import Answer, Frame, Given, Named, Talk
from workers.execution.pool_process import Ending
from workers.middleware.attempt import Attempt
from workers.process import faultfile, flightfile, lastlines, tree
from workers.process.flightfile import Running
from workers.process.orders import KINDS, Orders
from workers.process.standstill import LOOK_S, Standstill
from workers.process.stoppage import Stoppage, told


@dataclass(frozen=True, slots=True)
class Suspect:
    """A delivery of a job that ran in a process when that died, with all that is held against it, the newest last."""

    attempt: Attempt
    strikes: Sequence[Strike]

    @property
    def key(self) -> tuple[str, int]:
        """Return the attempt's key."""
        return self.attempt.job.id, self.attempt.job.attempt

    def struck_again(self, strike: Strike) -> Suspect:
        """Return it with one strike more."""
        return Suspect(self.attempt, [*self.strikes, strike])


class Reap(Protocol):
    """Learn how a cell ended."""

    def __call__(self, pid: int) -> Ending: ...


@dataclass(frozen=True, slots=True)
class Death:
    """How a cell died, and what had begun in it: who did and has not answered may have broken it and returned."""

    ending: Ending
    ran: Sequence[Running]
    blamed: Sequence[Running]
    lines: str
    stack: str


class Cell:
    """One cell and the suspects it was given. `hold` and `kill` may be called from two threads."""

    def __init__(
        self,
        pid: int,
        talk: Talk,
        orders: Orders,
        suspects: Sequence[Suspect],
        standstill: Standstill,
        stoppage: Stoppage,
    ) -> None:
        self.pid = pid
        self.life = secrets.token_hex(8)
        self.suspects = tuple(suspects)
        self.left = dict(enumerate(suspects, 1))
        """Those that have not answered, by their number."""
        self.condemned = False
        """Whether it was killed for no fault of theirs."""
        self.stuck: Suspect | None = None
        """The one that went on when its time was up, or that held the interpreter."""
        self.why_stuck: Why = "hard_limit"
        self._talk = talk
        self._standstill = standstill
        self._stoppage = stoppage
        self._was_stopped = False
        self._holders: Sequence[Running] = ()
        self._orders = orders

    def hold(self, answer: Callable[[Suspect, Answer], None]) -> None:
        """Give it its suspects and hear of each; return when all have answered or it is gone."""
        try:
            self._talk.send(Named(self.life))
            for number, suspect in self.left.items():
                delivery, turn = suspect.attempt.delivery, suspect.attempt.turn
                self._talk.send(Given(number, delivery.queue, delivery.body, delivery.header, turn))
        except OSError:  # it died meanwhile: what it has answered is still to be read
            pass
        while self.left and (frame := self._next()) is not None:
            if isinstance(frame, Answer) and frame.number in self.left:
                if frame.what == "stuck":
                    self._end_for(frame.number, "hard_limit")
                    return
                answer(self.left.pop(frame.number), frame)

    def _next(self) -> Frame | None:
        """Wait for the next frame; return None when it is gone, or was ended because a job holds or has stopped it."""
        while not self._talk.has_come(LOOK_S):
            if (holders := self._standstill.look()) is not None:
                self._end_held(holders.jobs)
                return None
            if self._stoppage.look():
                self._was_stopped = True
                tree.end(self.pid)
                return None
        return self._talk.receive()

    def _end_held(self, holders: Sequence[Running]) -> None:
        held = {(job.job_id, job.attempt) for job in holders}
        numbers = [number for number, suspect in self.left.items() if suspect.key in held]
        if len(numbers) == 1:
            self._end_for(numbers[0], "held_interpreter")
        else:
            self._holders = holders
            tree.end(self.pid)

    def _end_for(self, number: int, why: Why) -> None:
        """End it for the sake of one, who does not end."""
        self.stuck, self.why_stuck = self.left.pop(number), why
        tree.end(self.pid)

    def kill(self) -> None:
        """End it with all it has started; its suspects are not to blame."""
        self.condemned = True
        tree.end(self.pid)

    def end(self, reap: Reap) -> Death | None:
        """Let it go, or take its end; return how it died if it did so before all had answered."""
        self._talk.say_no_more()
        while self._talk.receive() is not None:
            pass  # it closes what it had open, then the line
        self._talk.close()
        tree.end(self.pid)  # it has ended, or does not close; until it is reaped nobody else can have its pid
        death = self._death(reap(self.pid))
        for kind in KINDS:
            self._orders.file(self.pid, kind).unlink(missing_ok=True)
        return death if self.left else None

    def _death(self, ending: Ending) -> Death:
        if self._was_stopped:
            ending = replace(ending, how=told(ending.how))
        flight = self._orders.file(self.pid, "flight")
        running = flightfile.read(flight)
        fault = faultfile.read(self._orders.file(self.pid, "fault"))
        blamed = self._holders or [job for job in running if fault and job.thread_ident == fault.thread_ident]
        ran = list({job.key: job for job in (*flightfile.read_begun(flight), *running)}.values())
        lines = lastlines.read(self._orders.file(self.pid, "lines"))
        return Death(ending, ran, blamed, lines, "" if fault is None else fault.stack)
