"""Be a child of the supervisor: hear it, report to it, and never outlive it.

One thread (`smena-parent`) waits for two things. Signals: the C-level handler writes the signal's number into a socket
(`signal.set_wakeup_fd`), so TERM is heard while the main thread sits in C code or holds a lock; no Python code runs in
a signal handler. The pipe: its end means that the supervisor is gone, and this process ends at once with all it has
started, beside the kernel's own parent-death signal.

TERM and INT ask for a drain, as often as they come: it is one drain. Before `ready`, and while no slot runs a job,
there is nothing to drain, so they end the process at once: a boot that hangs is no reason to wait. QUIT ends it at
once, always.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smena.clock import SYSTEM, Clock, Deadline
from smena.records.strike import Strike
from smena.telemetry.line_writer import LineWriter
from workers.process import flightfile, lineage, stackfile
from workers.process.exits import Exit
from workers.process.faultfile import FaultFile
from workers.process.flightfile import Running
from workers.process.lastlines import LastLines
from workers.process.mishaps import Mishaps
from workers.process.orders import Orders
from workers.process.pipe import Draining, Failed, Hello, Pipe, Ready, Report, Struck, Stuck, Take
from workers.process.priority import StandingBack
from workers.process.recorder import FlightRecorder
from workers.process.stackfile import StackFile

_DRAIN = frozenset({signal.SIGTERM, signal.SIGINT})
TAKEN = (
    *_DRAIN,
    signal.SIGQUIT,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGTTIN,
    signal.SIGTTOU,
    signal.SIGTSTP,
    stackfile.SIGNAL,
)
"""Those the supervisor acts on are taken here too, so that a signal sent to all processes ends none by default.

They get a handler that does nothing rather than SIG_IGN, which the programs that jobs start would inherit.
"""
_LAST_WORDS_S = 1.0


class Child:
    """What a role's ``run(settings, child)`` is given."""

    def __init__(self, orders: Orders, pipe: Pipe, clock: Clock = SYSTEM) -> None:
        self.orders = orders
        self.drain_requested = threading.Event()
        self._pipe = pipe
        self._clock = clock
        self._drain_since_s = 0.0
        self._is_ready = threading.Event()
        self._paused = orders.paused
        self._hold: Callable[[bool], object] | None = None
        self._holding = threading.Lock()
        self._struck: list[Strike] = []
        self._on_struck: Callable[[Sequence[Strike]], object] | None = None
        self._wakeup_in, self._wakeup_out = socket.socketpair()
        self._closing = threading.Event()
        self._fault_file: FaultFile | None = None
        self._stack_file: StackFile | None = None
        self._recorder: FlightRecorder | None = None
        self._standing = StandingBack()
        self.mishaps = Mishaps(self._end_in_order, self._running, self._mark_break)
        self.had_mishap = False
        self._thread = threading.Thread(target=self._listen, name="smena-parent", daemon=True)

    @property
    def name(self) -> str:
        """How this child is called in logs and metrics, such as ``worker-0``."""
        return self.orders.name()

    def last_lines(self) -> LineWriter:
        """Return where the log is to write too: the supervisor reads its end when the child has died."""
        return LastLines(self.orders.file(os.getpid(), "lines")).writer()

    def start(self) -> None:
        """Begin to listen, say hello, then make the files; call it once, on the main thread. Raises `FolderRefused`."""
        self._wakeup_out.settimeout(0.0)
        self._wakeup_in.settimeout(0.0)
        signal.set_wakeup_fd(self._wakeup_out.fileno(), warn_on_full_buffer=False)
        for number in TAKEN:
            signal.signal(number, _left_to_the_thread)
        lineage.hear_signals()
        lineage.mark_descendants(os.getpid())
        self.mishaps.install()
        if self.orders.stands_back:
            self._standing.begin()
        self._thread.start()
        self._pipe.send(Hello(os.getpid()))
        self._fault_file = FaultFile(self.orders.file(os.getpid(), "fault"))
        self._stack_file = StackFile(self.orders.file(os.getpid(), "stacks"))

    def recorder(self, slots: int) -> FlightRecorder:
        """Make this child's flight recorder; the supervisor reads and removes its file."""
        self._recorder = FlightRecorder(self.orders.file(os.getpid(), "flight"), slots)
        return self._recorder

    def ready(self) -> None:
        """Say that all is in place (broker and database answered); call it before the first job is taken."""
        self._standing.end()
        self._is_ready.set()
        self._pipe.send(Ready())

    def report(self, snapshot: dict[str, Any], loops: Mapping[str, int], unready: Sequence[str] = ()) -> bool:
        """Tell the supervisor the cumulative tally, each loop's tick and what cannot be reached now.

        Call it every `telemetry.tally_s`, also when nothing ran. ``loops`` are those that move every few seconds
        however long a job takes; one that has not moved for 15 s makes the fleet count as not live. Never waits;
        return False when the report was dropped, because the next one replaces it.
        """
        return self._pipe.send(Report(snapshot, dict(loops), tuple(unready)))

    def on_pause(self, hold: Callable[[bool], object]) -> None:
        """Have ``hold`` called with True when the child is to take no work for now, with False when it may again.

        It is called at once when the child is paused already, else from the listening thread; it must be quick.
        """
        with self._holding:
            self._hold = hold
            if self._paused:
                hold(self._paused)

    def on_struck(self, told: Callable[[Sequence[Strike]], object]) -> None:
        """Have ``told`` called with the strikes the supervisor tells of, those so far at once; it must be quick."""
        with self._holding:
            self._on_struck = told
            told(self._struck)
            self._struck.clear()

    def failed(self, error: str) -> None:
        """Tell the supervisor why this child cannot run, before it exits."""
        self._pipe.send(Failed(error))

    def is_stuck_with(self, job_id: str, actor: str, attempt: int, slot: int) -> None:
        """Tell the supervisor of a job that does not end, so that it replaces this child; blame is that job's alone."""
        self._pipe.send(Stuck(job_id, actor, attempt, slot))

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until a drain is requested; return whether it was."""
        return self.drain_requested.wait(timeout_s)

    def drain_deadline(self, drain_s: float) -> Deadline:
        """Return when a drain of ``drain_s`` seconds ends: counted from the request, or from now without one."""
        since = self._drain_since_s if self.drain_requested.is_set() else self._clock.monotonic()
        return Deadline(self._clock, since + drain_s)

    def close(self) -> None:
        """Say the last words and stop listening."""
        self._pipe.flush(Deadline.within(_LAST_WORDS_S, self._clock))
        self._closing.set()
        signal.set_wakeup_fd(-1)
        self._wakeup_out.send(b"\0")
        self._thread.join(_LAST_WORDS_S)
        self._wakeup_in.close()
        self._wakeup_out.close()
        self._pipe.close()
        if self._fault_file is not None:
            self._fault_file.close()
        if self._stack_file is not None:
            self._stack_file.close()

    def _listen(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._wakeup_in, selectors.EVENT_READ)
            selector.register(self._pipe, selectors.EVENT_READ)
            while not self._closing.is_set():
                for key, _ in selector.select():
                    if key.fileobj is self._pipe:
                        self._hear_supervisor()
                    else:
                        self._hear_signals(self._wakeup_in.recv(4096))

    def _hear_supervisor(self) -> None:
        for message in self._pipe.receive():
            if isinstance(message, Take):
                self._pause(not message.work)
            elif isinstance(message, Struck):
                self._tell_struck(message.strikes)
        if self._pipe.closed and not self._closing.is_set():
            lineage.end_session(os.getpid())
            os._exit(Exit.PARENT_LOST)

    def _pause(self, paused: bool) -> None:
        with self._holding:
            if paused != self._paused and self._hold is not None:
                self._hold(paused)
            self._paused = paused

    def _tell_struck(self, strikes: Sequence[Strike]) -> None:
        with self._holding:
            (self._struck.extend if self._on_struck is None else self._on_struck)(strikes)

    def _hear_signals(self, numbers: bytes) -> None:
        if signal.SIGQUIT in numbers:
            os._exit(Exit.ENDED_NOW)
        if stackfile.SIGNAL in numbers and self._stack_file is not None:
            self._stack_file.write()
        if _DRAIN.intersection(numbers):
            self._begin_drain(Exit.DRAINED)

    def _end_in_order(self, error: str) -> None:
        self.had_mishap = True
        self.failed(error)
        self._begin_drain(Exit.CRASHED)

    def _mark_break(self) -> None:
        if self._recorder is not None:
            self._recorder.mark_break()

    def _running(self) -> list[Running]:
        try:
            return [] if self._recorder is None else flightfile.read(self._recorder.path)
        except OSError:  # out of descriptors: what is told of that must not fail of it
            return []

    def _begin_drain(self, code: Exit) -> None:
        if not self._is_ready.is_set() and (self._recorder is None or self._recorder.idle()):
            os._exit(code)
        if not self.drain_requested.is_set():
            self._drain_since_s = self._clock.monotonic()
            self.drain_requested.set()
            self._pipe.send(Draining())


def _left_to_the_thread(_number: int, _frame: object) -> None:
    """Do nothing: the wake-up socket has told the listening thread already."""
