"""Hold the worker's end of one cell: a fresh process in which suspects run apart from everybody else.

The cell runs a job as any worker does, through the same rings, and tells how its delivery was settled there; the
worker, which holds the message and lives, settles it so.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from smena.records.strike import Strike
from workers.execution.cell_frames import Answer, Given, Talk
from workers.execution.pool_process import Ending
from workers.middleware.attempt import Attempt
from workers.process import faultfile, lastlines, recorder, tree
from workers.process.orders import KINDS, Orders
from workers.process.recorder import Running


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
    """How a cell died, and what ran in it then."""

    ending: Ending
    ran: Sequence[Running]
    blamed: Sequence[Running]
    lines: str
    stack: str


class Cell:
    """One cell and the suspects it was given. `hold` and `kill` may be called from two threads."""

    def __init__(self, pid: int, talk: Talk, orders: Orders, suspects: Sequence[Suspect]) -> None:
        self.pid = pid
        self.life = secrets.token_hex(8)
        self.suspects = tuple(suspects)
        self.left = dict(enumerate(suspects, 1))
        """Those that have not answered, by their number."""
        self.condemned = False
        """Whether it was killed for no fault of theirs."""
        self.stuck: Suspect | None = None
        """The one that went on when its time was up."""
        self._talk = talk
        self._orders = orders

    def hold(self, answer: Callable[[Suspect, Answer], None]) -> None:
        """Give it its suspects and hear of each; return when all have answered or it is gone."""
        try:
            for number, suspect in self.left.items():
                delivery = suspect.attempt.delivery
                self._talk.send(Given(number, delivery.queue, delivery.body, delivery.header))
        except OSError:  # it died meanwhile: what it has answered is still to be read
            pass
        while self.left and (frame := self._talk.receive()) is not None:
            if isinstance(frame, Answer) and frame.number in self.left:
                suspect = self.left.pop(frame.number)
                if frame.what == "stuck":
                    self.stuck = suspect
                    tree.end(self.pid)
                    return
                answer(suspect, frame)

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
        ran = recorder.read(self._orders.file(self.pid, "flight"))
        fault = faultfile.read(self._orders.file(self.pid, "fault"))
        blamed = [job for job in ran if fault is not None and job.thread_ident == fault.thread_ident]
        lines = lastlines.read(self._orders.file(self.pid, "lines"))
        return Death(ending, ran, blamed, lines, "" if fault is None else fault.stack)
