"""Hold what the supervisor knows of one child, from its start to its burial."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from smena.telemetry.metric import JOBS
from workers.process import lineage
from workers.process.flightfile import Running
from workers.process.orders import Orders
from workers.process.pipe import Draining, Failed, Hello, Message, Pipe, Ready, Report, Stuck
from workers.supervisor.culprit import Culprit
from workers.supervisor.memory import Memory
from workers.supervisor.nursery import NurseryHandle
from workers.supervisor.post import Post


@dataclass(slots=True)
class LoopSeen:
    """A loop's last tick and when it last moved, on the supervisor's clock."""

    tick: int
    moved_s: float


@dataclass(slots=True, eq=False)
class SupervisedChild:
    """One child. ``pid`` is 0 until it is known; times are monotonic seconds of the supervisor.

    ``nursery`` has forked it, if one did. ``relieves`` is the child whose place it is to take; ``leave_by`` is set once
    its place is no longer its own (relieved, or not wanted any more), and is the moment at which it is killed.
    ``asked`` is whether its end is the supervisor's wish (`ask_to_drain`).
    ``share`` is its own part of the limits of its lifespan. ``culprits`` is set before the child is killed for some
    jobs' sake: those are to blame, whatever else ran. ``suspects`` is set before it is killed for one of these.
    ``stopped_s`` is for how long it has been stopped (SIGSTOP), as last seen.
    """

    post: Post
    orders: Orders
    pipe: Pipe
    started_s: float
    pid: int = 0
    nursery: NurseryHandle | None = None
    relieves: SupervisedChild | None = None
    leave_by_s: float | None = None
    asked: bool = False
    draining_since_s: float | None = None
    killed: bool = False
    culprits: tuple[Culprit, ...] = ()
    suspects: Sequence[Running] = ()
    stopped_s: float = 0.0
    share: float = 1.0
    memory: Memory = field(default_factory=Memory)
    ready_s: float | None = None
    heard_s: float = 0.0
    draining: bool = False
    failure: str = ""
    report: Report = field(default_factory=Report)
    loops: dict[str, LoopSeen] = field(default_factory=dict)

    @property
    def holds_post(self) -> bool:
        """Whether the post is its own: it is neither on its way out nor waiting for another to leave."""
        return self.relieves is None and self.leave_by_s is None

    @property
    def jobs_done(self) -> int:
        """How many jobs it has ended, as it last reported."""
        counts: dict[str, int] = self.report.snapshot.get("counters", {}).get(JOBS.name, {})
        return sum(counts.values())

    def limit_reached(self, now_s: float) -> str:
        """Return which limit of its lifespan it has reached, in words; empty for none, and while it is not at work."""
        if self.ready_s is None or self.draining:
            return ""
        return self.post.role.lifespan.reached(
            jobs=self.jobs_done,
            memory_mib=self.memory.now_kib // 1024,
            age_s=self.healthy_s(now_s),
            share=self.share,
        )

    def overdue(self, now_s: float, leave_s: float) -> bool:
        """Say whether it should have ended by now: dismissed, or draining of itself for ``leave_s``."""
        if self.killed:
            return False
        if self.leave_by_s is not None:
            return self.leave_by_s <= now_s
        return self.draining_since_s is not None and now_s - self.draining_since_s > leave_s

    def hear(self, now_s: float) -> None:
        """Take in what the child has sent; one that talks nonsense is ended."""
        try:
            for message in self.pipe.receive():
                self._take(message, now_s)
        except (msgspec.MsgspecError, ValueError) as failure:
            self.failure = f"it sent what is not a message: {failure}"
            self.pipe.close()
            self.kill()

    def ask_to_drain(self, *, with_all: bool = False) -> None:
        """Ask it to end in good order; a child not yet born, or one whose process is not known, ends by its pipe.

        A drain that it had begun of itself stays its own, unless the whole fleet drains (``with_all``): a signal to the
        process group may reach the child first.
        """
        self.asked = self.asked or with_all or not self.draining
        if not self.pid:
            self.draining = True
            self.pipe.close()
            return
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End it now, with all in its session."""
        self.killed = True
        if self.pid:
            lineage.kill_session(self.pid)

    def end_session(self) -> None:
        """End what the dead child has left running; call it before the child is reaped."""
        lineage.end_session(self.pid)

    def healthy_s(self, now_s: float) -> float:
        """Return for how long it has been ready."""
        return 0.0 if self.ready_s is None else now_s - self.ready_s

    def _take(self, message: Message, now_s: float) -> None:
        self.heard_s = now_s
        match message:
            case Hello(pid=pid):
                self.pid = pid
            case Ready():
                self.ready_s = now_s
                self.post.was_filled = True
            case Draining():
                self.draining, self.draining_since_s = True, now_s
            case Failed(error=error):
                self.failure = error
            case Stuck(job_id, actor, attempt, slot):
                self.culprits += (Culprit(job_id, actor, attempt, slot, "hard_limit"),)
            case Report(loops=loops):
                self.report = message
                self.loops = {name: self._seen(name, tick, now_s) for name, tick in loops.items()}
            case _:
                raise ValueError(f"a child does not say {message}")

    def _seen(self, name: str, tick: int, now_s: float) -> LoopSeen:
        before = self.loops.get(name)
        return before if before is not None and before.tick == tick else LoopSeen(tick, now_s)
