"""Hold the one drain of a fleet: when it began, when it ends, how it went."""

from __future__ import annotations

from dataclasses import dataclass

from smena.clock import Deadline
from workers.process.exits import Exit
from workers.supervisor.evidence import Ended


@dataclass(slots=True)
class Drain:
    """A drain that has begun.

    ``budget`` is what the children's jobs have; ``deadline`` adds the grace after which what is left is killed.
    ``code`` is how the supervisor will exit.
    """

    began_s: float
    budget: Deadline
    deadline: Deadline
    code: Exit = Exit.DRAINED
    killing: bool = False

    def note(self, ended: Ended) -> None:
        """Take a child's end into account."""
        if self.code is Exit.DRAINED and ended.code == Exit.DRAIN_OVERRAN:
            self.code = Exit.DRAIN_OVERRAN

    def kill(self, code: Exit, deadline: Deadline) -> None:
        """Note that what is left is killed now; the kernel has until the deadline to do it."""
        self.killing, self.code, self.deadline = True, code, deadline

    def given_up(self) -> bool:
        """Say whether even killing did not end all in time (a process in an uninterruptible wait)."""
        return self.killing and self.deadline.passed()
