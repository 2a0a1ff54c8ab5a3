"""Hold a place that the fleet wants filled, and say when it may be filled again after a death.

A child that ended well is followed soon. A child that died is followed after a pause that doubles with each death in a
row; one that had been ready for a while ends the row. After `CRASH_LOOP` deaths in a row the post counts as looping:
it is said once, readiness names it, and the pause stays at its cap.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from smena.backoff import Backoff, Pause
from workers.supervisor.lifespan import Lifespan

CRASH_LOOP = 5
"""Deaths in a row, none after a healthy spell, that make a crash loop."""


@dataclass(frozen=True, slots=True)
class Role:
    """A kind of child: its name, the module with its ``run``, how many, and whether a nursery forks it.

    ``most`` is how many TTIN may make of it; a role without it stays as it is. Children are relieved at the
    limits of ``lifespan``.
    """

    name: str
    module: str
    count: int = 1
    forked: bool = False
    most: int = 0
    lifespan: Lifespan = field(default_factory=Lifespan)


@dataclass(slots=True)
class Post:
    """One wanted child of a role, numbered from 0. The arbiter alone changes it."""

    role: Role
    number: int
    backoff: Backoff
    due_s: float = 0.0
    was_filled: bool = False
    last_pid: int = 0
    last_wait_s: float = 0.0
    _pause: Pause = field(init=False)

    def __post_init__(self) -> None:
        self._pause = Pause(self.backoff)

    @property
    def name(self) -> str:
        """How the post is called in logs and metrics, such as ``worker-0``."""
        return f"{self.role.name}-{self.number}"

    @property
    def deaths(self) -> int:
        """How many of its children in a row died without having been ready for a while."""
        return self._pause.failures

    @property
    def looping(self) -> bool:
        """Whether its children keep dying."""
        return self.deaths >= CRASH_LOOP

    def vacate(self, now_s: float, pid: int, healthy_s: float, *, ended_well: bool) -> None:
        """Note that the child ``pid`` is gone, after ``healthy_s`` seconds of being ready."""
        if ended_well or healthy_s >= self.backoff.cap_s:
            self._pause.reset()
        wait_s = self.backoff.base_s if ended_well else self._pause.next_s()
        self.last_wait_s = self.backoff.cap_s if self.looping else wait_s
        self.last_pid = pid
        self.due_s = now_s + self.last_wait_s

    def try_anew(self, now_s: float) -> None:
        """Forget the deaths: what the next child runs is another code."""
        self._pause.reset()
        self.due_s = now_s

    def postpone(self, now_s: float) -> None:
        """Note that no child could be started just now."""
        self.due_s = now_s + self.backoff.cap_s
