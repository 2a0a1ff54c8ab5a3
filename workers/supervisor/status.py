"""Write into the log how everything is, when USR1 asks for it: each child, and where each thread is.

The supervisor's own stacks are taken here. A child's are written by itself into a file (`workers.process.stackfile`);
they are looked for in the rounds that follow, so a child that does not answer holds up nothing.
"""

from __future__ import annotations

import sys
import threading
import traceback
from dataclasses import dataclass

from smena.clock import Clock
from smena.telemetry import events
from workers.process import flightfile, stackfile
from workers.supervisor.child import SupervisedChild
from workers.supervisor.crew import Crew

ANSWER_S = 0.5
"""Time that a child has to write its stacks; they take some milliseconds."""


@dataclass(frozen=True, slots=True)
class _Asked:
    child: SupervisedChild
    begin: int
    due_s: float
    held: bool


class Status:
    """Who was asked and has not been read yet."""

    def __init__(self, crew: Crew, clock: Clock) -> None:
        self._crew = crew
        self._clock = clock
        self._asked: list[_Asked] = []

    def ask(self) -> None:
        """Tell how the children are and where this process is, and ask the children where they are."""
        crew, now = self._crew, self._clock.monotonic()
        events.emit(events.FLEET_STATUS, children=len(crew.children), posts=len(crew.posts), running=crew.running())
        for child in crew.children:
            _tell(child, now)
            if child.pid:
                self._ask(child)
        _tell_own_stacks()

    def step(self) -> None:
        """Tell what those who were asked have written by now."""
        now = self._clock.monotonic()
        for asked in [asked for asked in self._asked if asked.due_s <= now]:
            self._asked.remove(asked)
            if not _tell_stacks(asked) and not asked.held:
                self._ask(asked.child, held=True)

    def _ask(self, child: SupervisedChild, *, held: bool = False) -> None:
        begin = stackfile.ask(child.pid, child.orders.file(child.pid, "stacks"), held=held)
        if begin is not None:
            self._asked.append(_Asked(child, begin, self._clock.monotonic() + ANSWER_S, held))


def _tell(child: SupervisedChild, now_s: float) -> None:
    state = "leaving" if child.leave_by_s is not None else "starting" if child.ready_s is None else "ready"
    running = flightfile.read(child.orders.file(child.pid, "flight"))
    events.emit(
        events.CHILD_STATUS,
        role=child.post.role.name,
        post=child.post.name,
        child=child.pid,
        state=state,
        age_s=round(now_s - child.started_s, 1),
        jobs_done=child.jobs_done,
        running=[{"job": job.job_id, "actor": job.actor, "attempt": job.attempt} for job in running],
        memory_mib=child.memory.now_kib // 1024,
        peak_mib=child.memory.peak_kib // 1024,
        unready=list(child.report.unready),
    )


def _tell_own_stacks() -> None:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():  # noqa: SLF001  (the documented way)
        stack = "".join(reversed(traceback.format_stack(frame)))
        events.emit(
            events.PROCESS_STACK,
            post="supervisor",
            child=None,
            thread=names.get(ident, hex(ident)),
            job=None,
            stack=stack,
        )


def _tell_stacks(asked: _Asked) -> bool:
    """Tell what the child has written; say whether it has."""
    child = asked.child
    jobs = {job.thread_ident: job.job_id for job in flightfile.read(child.orders.file(child.pid, "flight"))}
    stacks = list(stackfile.read(child.orders.file(child.pid, "stacks"), asked.begin))
    for stack in stacks:
        events.emit(
            events.PROCESS_STACK,
            post=child.post.name,
            child=child.pid,
            thread=hex(stack.thread_ident),
            job=jobs.get(stack.thread_ident),
            stack=stack.text,
        )
    return bool(stacks)
