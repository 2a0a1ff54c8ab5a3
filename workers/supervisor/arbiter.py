"""Keep wanted and actual processes equal, in one loop.

Each round: fill the empty posts, take the next step of what is under way (a reload, a recycling), put up what is
seen, wait for a signal, a child's word or the next due moment, obey the signals, bury the dead. Signals and children
only leave notes; this thread alone acts on them, so no two events ever meet half way.

The supervisor imports no code of the user's: children are processes started by command line or forked by a nursery.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Callable, Iterator

from smena.clock import Clock, Deadline
from smena.telemetry import events
from workers.process.exits import Exit
from workers.process.mishaps import Mishaps
from workers.supervisor import fleet_view
from workers.supervisor.budgets import Budgets
from workers.supervisor.crew import Crew
from workers.supervisor.drain import Drain
from workers.supervisor.evidence import Ended
from workers.supervisor.fleet_view import FleetView, State
from workers.supervisor.nursery import NurseryHandle
from workers.supervisor.signals import Heard, SignalQueue
from workers.supervisor.upkeep import CHANGES, Upkeep

ROUND_S = 0.5
"""Longest wait of a round, so that probes see the loop move."""

_LEAST_WAIT_S = 0.005


class Arbiter:
    """Run the fleet until it has drained. ``publish`` gets a view of it each round."""

    def __init__(
        self,
        crew: Crew,
        upkeep: Upkeep,
        signals: SignalQueue,
        publish: Callable[[FleetView], None],
        budgets: Budgets,
        clock: Clock,
    ) -> None:
        self.refusal = ""
        """Why the fleet cannot run as it is configured, once that is known."""
        self._crew = crew
        self._upkeep = upkeep
        self._mishap = ""
        self._mishaps = Mishaps(self.note_mishap, list)
        self._mishaps.install()
        self._signals = signals
        self._publish = publish
        self._budgets = budgets
        self._clock = clock
        self._began_s = clock.monotonic()
        self._state: State = "booting"
        self._drain: Drain | None = None
        self._on_signal: dict[signal.Signals, Callable[[Heard], None]] = {
            signal.SIGTERM: self._ask_to_drain,
            signal.SIGINT: self._ask_to_drain,
            signal.SIGHUP: self._ask_to_reload,
            signal.SIGQUIT: self._end_now,
            **dict.fromkeys(CHANGES, self._ask_to_change),
        }

    def run(self) -> Exit:
        """Fill the posts and keep them filled; return how it ended.

        An error in here is a bug. It ends the fleet in order; an error on that way too ends it at once.
        """
        try:
            return self._go_round()
        except Exception as bug:  # noqa: BLE001  (the seam: nobody is left above that could drain the children)
            self._mishaps.tell("the supervisor's loop", bug)
        try:
            return self._go_round()
        except Exception as bug:  # noqa: BLE001  (the same)
            self._mishaps.tell("the supervisor's loop, while it drained", bug)
            for child in self._crew.children:
                child.kill()
            return Exit.CRASHED

    def note_mishap(self, error: str) -> None:
        """Note that something of this process is broken, so that the fleet is drained; from any thread."""
        self._mishap = self._mishap or error

    def _go_round(self) -> Exit:
        while self._drain is None or (self._crew.children and not self._drain.given_up()):
            self._reconcile()
            self._show()
            self._wait()
            self._obey()
            self._crew.hear()
            self._bury_the_dead()
        self._show()
        return self._finish(self._drain)

    def _obey(self) -> None:
        for heard in self._signals.take():
            if act := self._on_signal.get(heard.number):
                act(heard)

    # --- Wanted and actual -------------------------------------------------------------------

    def _reconcile(self) -> None:
        if self._mishap and self._drain is None:
            self._begin_drain(self._mishap)
        if self._drain is None:
            self._crew.fill()
            self._upkeep.step()
        elif self._drain.deadline.passed():
            self._kill("it did not end within its drain budget and the grace after it")

    def _show(self) -> None:
        children, posts = self._crew.children, self._crew.posts
        holders = self._crew.holders()
        missing = fleet_view.missing(posts, holders)
        if self._state == "booting" and not missing:
            self._state = "ready"
            events.emit(events.PROCESS_READY, seconds=round(self._clock.monotonic() - self._began_s, 3))
        self._publish(
            FleetView(
                state=self._state,
                pids=fleet_view.pids_by_role(holders),
                nurseries=self._crew.nurseries.pids(),
                paused=self._crew.paused,
                reloading=self._upkeep.reloading,
                leaving=fleet_view.leaving(children),
                standing_still=fleet_view.standing_still(children, self._clock.monotonic()),
                missing=missing,
                figures=self._crew.tallies.figures(fleet_view.states(posts, children)),
            )
        )

    def _wait(self) -> None:
        poll = select.poll()
        poll.register(self._signals, select.POLLIN)
        for child in self._crew.children:
            if not child.pipe.closed:
                poll.register(child.pipe, select.POLLIN)
        for nursery in self._crew.nurseries:
            if (descriptor := nursery.fileno()) is not None:
                poll.register(descriptor, select.POLLIN)
        poll.poll(self._patience_s() * 1000)

    def _patience_s(self) -> float:
        now = self._clock.monotonic()
        due_s = self._crew.next_due_s() if self._drain is None else now + self._drain.deadline.left_s()
        return ROUND_S if due_s is None else max(_LEAST_WAIT_S, min(ROUND_S, due_s - now))

    # --- The dead ----------------------------------------------------------------------------

    def _bury_the_dead(self) -> None:
        for pid in _dead():
            self._obey()  # a signal to the whole group is here too by now, and makes this end the fleet's
            self._crew.hear()  # its last words, which may be its first: a forked child tells its pid itself
            child = next((child for child in self._crew.children if child.pid == pid), None)
            if child is not None:
                child.end_session()
            self._note(pid, Ended.reap(pid))
        for child in self._crew.unborn():
            self._crew.bury(child, Ended(0))

    def _note(self, pid: int, ended: Ended) -> None:
        for child in [child for child in self._crew.children if child.pid == pid]:
            left = self._crew.bury(child, ended)
            if not left.running:  # else a job may have exited with that code
                self._judge(child.post.role.name, ended, child.failure)
            if self._drain is not None:
                self._drain.note(ended)
        for nursery in [nursery for nursery in self._crew.nurseries if nursery.pid == pid]:
            self._bury_nursery(nursery, ended)

    def _bury_nursery(self, nursery: NurseryHandle, ended: Ended) -> None:
        missed = self._crew.nurseries.bury(nursery, self._clock.monotonic())
        if missed and self._drain is None:
            role, failure = nursery.orders.role, nursery.failure
            events.emit(events.NURSERY_EXITED, role=role, nursery=ended.pid, code=ended.how, error=failure)
            self._judge(role, ended, failure)

    def _judge(self, role: str, ended: Ended, failure: str) -> None:
        """Refuse to go on when a role's first boot shows that it cannot run as it is configured."""
        if self._drain is None and ended.code == Exit.MISCONFIGURED and not self._crew.was_ever_filled(role):
            self.refusal = failure or f"a process of the role {role} exited as misconfigured and did not say why"
            self._begin_drain("misconfigured")

    # --- The end -----------------------------------------------------------------------------

    def _ask_to_reload(self, heard: Heard) -> None:
        if heard.by_kernel:
            self._ask_to_drain(heard)  # the terminal is gone
        else:
            self._ask_to_change(heard)

    def _ask_to_change(self, heard: Heard) -> None:
        if self._drain is None and not heard.by_kernel:  # the terminal's own TSTP, TTIN and TTOU mean nothing here
            self._upkeep.ask(heard.number)

    def _ask_to_drain(self, heard: Heard) -> None:
        if self._drain is None:
            self._begin_drain(heard.number.name)
            return
        events.emit(
            events.DRAIN_GOES_ON,
            running=self._crew.running(),
            left_s=round(self._drain.budget.left_s(), 1),
            hint=r"QUIT (Ctrl-\) ends it now",
        )

    def _begin_drain(self, why: str) -> None:
        now, drain_s = self._clock.monotonic(), self._budgets.drain_s
        self._state = "draining"
        self._drain = Drain(
            now,
            budget=Deadline(self._clock, now + drain_s),
            deadline=Deadline(self._clock, now + drain_s + self._budgets.kill_grace_s),
        )
        events.emit(events.PROCESS_STOPPING, why=why)
        events.emit(events.DRAIN_STARTED, running=self._crew.running(), budget_s=drain_s)
        for nursery in self._crew.nurseries:
            nursery.kill()
        for child in self._crew.children:
            child.ask_to_drain(with_all=True)

    def _end_now(self, heard: Heard) -> None:
        if self._drain is None:
            self._begin_drain(heard.number.name)
        self._kill("QUIT was asked for", Exit.ENDED_NOW)

    def _kill(self, why: str, code: Exit = Exit.DRAIN_OVERRAN) -> None:
        if self._drain is not None and not self._drain.killing:
            self._drain.kill(code, Deadline.within(self._budgets.kill_grace_s, self._clock))
            for child in self._crew.children:
                self._crew.kill(child, why)

    def _finish(self, drain: Drain) -> Exit:
        code = Exit.MISCONFIGURED if self.refusal else Exit.CRASHED if self._mishap else drain.code
        events.emit(events.DRAIN_FINISHED, seconds=round(self._clock.monotonic() - drain.began_s, 3))
        events.emit(events.PROCESS_STOPPED, code=int(code))
        return code


def _dead() -> Iterator[int]:
    """Yield the pid of each child that has ended, not yet reaped: until it is, nobody else can have its pid."""
    with contextlib.suppress(ChildProcessError):
        while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            yield found.si_pid
