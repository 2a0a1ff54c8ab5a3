"""Hold the children and their nurseries: fill empty posts, hear what they say, bury them.

A post has one child that holds it. Beside it there may be one that waits to relieve it, and some that were relieved and
drain. What is done here is asked for by the arbiter, on the arbiter's thread.
"""

from __future__ import annotations

import secrets
import socket
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial

import msgspec

from smena.clock import Clock
from smena.records.strike import Strike
from smena.telemetry import events
from smena.telemetry.plain_text import error_text
from workers.process import flightfile
from workers.process.exits import Exit
from workers.process.orders import Orders
from workers.process.pipe import Pipe, Struck, Take
from workers.supervisor import burial, evidence
from workers.supervisor.burial import Burial
from workers.supervisor.child import SupervisedChild
from workers.supervisor.evidence import Ended, Evidence
from workers.supervisor.lifespan import draw_share
from workers.supervisor.nurseries import Nurseries
from workers.supervisor.nursery import NurseryHandle
from workers.supervisor.post import CRASH_LOOP, Post
from workers.supervisor.tallies import Tallies

MOST_TOLD = 1000
"""Strikes that are kept for children to come, where there is no database to ask."""

BIRTH_S = 30.0
"""A fork that shows no child for so long means that the nursery stands still."""

SAMPLE_S = 1.0
"""Pause between two looks at the children's memory."""

Bury = Callable[[Burial], object]
"""Write down a dead child and the strikes of those that ran in it; never waits."""

Start = Callable[[Orders, socket.socket], int]
"""Start the child that the orders name with that end of its pipe; return its pid, 0 if it will tell it itself."""


class Crew:
    """The posts, who is at them, and the figures of all who were.

    ``start`` starts a child by command line; roles named in ``nurseries`` are forked there instead. Burials go to
    ``write_down``; where nobody writes them down, the children are told.
    """

    def __init__(
        self,
        posts: Sequence[Post],
        nurseries: Nurseries,
        orders_for: Callable[[Post], Orders],
        start: Start,
        clock: Clock,
        write_down: Bury | None = None,
        *,
        tell: bool = True,
    ) -> None:
        self.posts = list(posts)
        self.nurseries = nurseries
        self.children: list[SupervisedChild] = []
        self.tallies = Tallies()
        self.paused = False
        """Whether no work is to be taken for now."""
        self._sampled_s = 0.0
        self._orders_for = orders_for
        self._start = start
        self._clock = clock
        self._write_down = write_down
        self._tell = tell
        self._told: deque[Strike] = deque(maxlen=MOST_TOLD)
        self._host = socket.gethostname()

    # --- Wanted ------------------------------------------------------------------------------

    def holders(self) -> list[SupervisedChild]:
        """Return the children whose posts are their own; one that leaves or waits for its turn is not among them."""
        return [child for child in self.children if child.holds_post]

    def empty_posts(self) -> Iterator[Post]:
        """Yield the posts that nobody is at and that could be filled, were it time."""
        held = {child.post.name for child in self.holders()}
        for post in self.posts:
            nursery = self.nurseries.of(post.role.name)
            if post.name not in held and (nursery is None or nursery.state == "ready"):
                yield post

    def next_due_s(self) -> float | None:
        """Return the moment at which the next post or nursery may be filled, if one is empty."""
        dues = [post.due_s for post in self.empty_posts()]
        dues += [nursery.due_s for nursery in self.nurseries.in_use() if nursery.state == "gone"]
        return min(dues, default=None)

    def fill(self) -> None:
        """Start what is wanted, missing and due."""
        now = self._clock.monotonic()
        for nursery in self.nurseries.in_use():
            if nursery.state == "gone" and nursery.due_s <= now:
                self._try(partial(nursery.start, now), nursery.postpone)
        for post in list(self.empty_posts()):
            if post.due_s <= now:
                self._try(partial(self.begin, post, self.nurseries.of(post.role.name)), post.postpone)
        for child in self.children:
            if not child.pid and child.nursery is not None and now - child.started_s > BIRTH_S:
                child.pipe.close()
                child.nursery.kill()
        self.nurseries.clear({child.nursery.pid for child in self.children if child.nursery is not None})

    def _try(self, begin: Callable[[], object], postpone: Callable[[float], None]) -> None:
        """Begin something that takes processes and descriptors, which may be short just now."""
        try:
            begin()
        except OSError as failure:
            events.emit(events.LOOP_FAILED, loop="supervisor", error=error_text(failure))
            postpone(self._clock.monotonic())

    def begin(
        self, post: Post, nursery: NurseryHandle | None, relieves: SupervisedChild | None = None
    ) -> SupervisedChild:
        """Start a child for the post, or one that waits to take it over; `OSError` when the machine is short."""
        orders = msgspec.structs.replace(
            self._orders_for(post), paused=self.paused, stands_back=relieves is not None, life=secrets.token_hex(8)
        )
        ours, theirs = socket.socketpair()
        with theirs, ExitStack() as unless_started:
            unless_started.callback(ours.close)
            pid = (self._start if nursery is None else nursery.fork)(orders, theirs)
            unless_started.pop_all()
        now = self._clock.monotonic()
        child = SupervisedChild(post, orders, Pipe(ours), now, pid, nursery, relieves, share=draw_share())
        self.children.append(child)
        if self._told:
            child.pipe.send(Struck(tuple(self._told)))
        if pid:
            self._welcome(child)
        return child

    # --- Told and let go ------------------------------------------------------------------------------

    def pause(self, paused: bool) -> None:
        """Let all children, and those to come, take no work, or take it again."""
        self.paused = paused
        for child in self.children:
            child.pipe.send(Take(work=not paused))

    def dismiss(self, child: SupervisedChild, within_s: float) -> None:
        """Take the child's post from it and ask it to drain; it is killed when it has not ended in time."""
        child.leave_by_s = self._clock.monotonic() + within_s
        child.ask_to_drain()

    def kill_overdue(self, leave_s: float) -> None:
        """Kill those that should have ended by now; ``leave_s`` is what one has that began to drain of itself."""
        now = self._clock.monotonic()
        for child in self.children:
            if child.overdue(now, leave_s):
                self.kill(child, "it did not end within its drain budget and the grace after it")

    def kill(self, child: SupervisedChild, why: str) -> None:
        """End a child now, and say why."""
        events.emit(events.CHILD_KILLED, role=child.post.role.name, post=child.post.name, child=child.pid, why=why)
        child.kill()

    # --- Heard -------------------------------------------------------------------------------

    def hear(self) -> None:
        """Take in what children and nurseries have said."""
        now = self._clock.monotonic()
        for child in self.children:
            was_known = bool(child.pid)
            child.hear(now)
            if child.pid and not was_known:
                self._welcome(child)
            if child.pid and child.report.snapshot:
                self.tallies.keep(child.pid, child.report.snapshot)
        for nursery in self.nurseries:
            if (word := nursery.hear()) is not None:
                role, seconds = nursery.orders.role, round(now - nursery.started_s, 3)
                events.emit(events.NURSERY_READY, role=role, nursery=nursery.pid, seconds=seconds, warning=word.warning)

    def sample_memory(self) -> None:
        """See what each child holds now, once a second at most: what a killed one held can be told then."""
        now = self._clock.monotonic()
        if now - self._sampled_s >= SAMPLE_S:
            self._sampled_s = now
            for child in self.children:
                if child.pid:
                    child.memory.sample(child.pid)

    def unborn(self) -> list[SupervisedChild]:
        """Return the children whose pipe ended before they said who they are."""
        return [child for child in self.children if child.pipe.closed and not child.pid]

    def running(self) -> int:
        """Return how many jobs run now, as the flight recorders show them."""
        return sum(len(flightfile.read(child.orders.file(child.pid, "flight"))) for child in self.children if child.pid)

    # --- Dead --------------------------------------------------------------------------------

    def bury(self, child: SupervisedChild, ended: Ended) -> Evidence:
        """Keep what the dead child counted, tell what it left, and see when its post may be filled again.

        Return what it left.
        """
        now = self._clock.monotonic()
        left = evidence.collect(child.orders, ended.pid)
        self._strike(burial.bury(child, ended, left, self._host))
        self.children.remove(child)
        child.pipe.close()
        self.tallies.fold(ended.pid)
        if child.nursery is not None:
            child.nursery.reaped(ended.pid)
        _tell_exit(child, ended, left)
        if child.holds_post and not self._has_heir(child):
            well = _drained(child, ended, left) and child.ready_s is not None
            child.post.vacate(now, ended.pid, child.healthy_s(now), ended_well=well)
            self._tell_loop(child)
        return left

    def _strike(self, dead: Burial) -> None:
        """Hand the burial on, then tell it: whose strikes are looked up waits for them."""
        if self._write_down is not None:
            self._write_down(dead)
        if self._tell and dead.strikes:
            self._told.extend(dead.strikes)
            for child in self.children:
                child.pipe.send(Struck(tuple(dead.strikes)))
        for strike in dead.strikes:
            self.tallies.count_struck(strike.actor, strike.why)
            events.emit(events.JOB_STRUCK, **strike.told())

    def _has_heir(self, dead: SupervisedChild) -> bool:
        """Give the dead child's post to the one that was to relieve it, if there is one."""
        heirs = [child for child in self.children if child.relieves is dead and child.leave_by_s is None]
        for heir in heirs:
            heir.relieves = None
        return bool(heirs)

    def _welcome(self, child: SupervisedChild) -> None:
        post = child.post
        events.emit(events.CHILD_STARTED, role=post.role.name, post=post.name, child=child.pid)
        if post.last_pid and child.relieves is None:
            self.tallies.count_replaced(post.role.name)
            events.emit(
                events.CHILD_REPLACED,
                role=post.role.name,
                post=post.name,
                child=child.pid,
                replaces=post.last_pid,
                after_s=round(post.last_wait_s, 3),
            )

    def was_ever_filled(self, role: str) -> bool:
        """Say whether any child of the role was ever ready."""
        return any(post.was_filled for post in self.posts if post.role.name == role)

    def _tell_loop(self, child: SupervisedChild) -> None:
        post = child.post
        if post.deaths == CRASH_LOOP:
            events.emit(
                events.CHILD_LOOPING,
                role=post.role.name,
                post=post.name,
                deaths=post.deaths,
                pause_s=post.last_wait_s,
                error=child.failure,
            )


def _drained(child: SupervisedChild, ended: Ended, left: Evidence) -> bool:
    """Say whether it was asked to end and did. The code alone is no proof: a job may exit with 0 where it works.

    That may be before its process has said that it is ready, or in a drain; then the job is seen to have run.
    """
    return ended.code == Exit.DRAINED and not left.running and (child.draining or child.ready_s is None)


def _tell_exit(child: SupervisedChild, ended: Ended, left: Evidence) -> None:
    if _drained(child, ended, left):
        events.emit(events.CHILD_DRAINED, role=child.post.role.name, post=child.post.name, child=ended.pid)
    if _drained(child, ended, left) or (not ended.pid and child.draining):
        return  # it ended as it should, or was never born because a drain came first
    events.emit(
        events.CHILD_EXITED,
        role=child.post.role.name,
        post=child.post.name,
        child=ended.pid,
        code=ended.code,
        signal=ended.how if ended.signal is not None else None,
        how=ended.how,
        error=child.failure,
        peak_mib=max(ended.peak_kib, child.memory.peak_kib) // 1024,
        jobs=len(left.running),
        running=[{"job": job.job_id, "actor": job.actor, "attempt": job.attempt} for job in left.running],
        blamed=[job.job_id for job in left.blamed],
        fault=left.fault.error if left.fault is not None else None,
        stack=left.fault.stack if left.fault is not None else None,
    )
