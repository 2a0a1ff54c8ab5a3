"""Start, watch and end pool processes, on one thread of its own; nothing is started before the first order.

No order waits for the server to load the books: a kill is done at once. What a running step holds, with all that it has
started, is looked at every 0.1 s; beyond its bound the step is ended, and so is one whose caller forgot it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Final, Protocol

from smena.backoff import Backoff, Pause
from smena.clock import SYSTEM, Deadline
from smena.errors import OutOfMemory, PoolBroken, SmenaError, TimedOut
from smena.lifecycle import Loop
from smena.telemetry import events
from workers.execution import pool_frames
from workers.execution.pool_memory import PoolMemory
from workers.execution.pool_process import Ending, PoolProcess, Server

LOOK_S: Final = 0.1
IDLE_S: Final = 1.0
MEND: Final = Backoff(base_s=0.2, cap_s=5.0, floor_s=0.1)
"""The pause between two tries to get a broken pool going."""

_PROOF_S: Final = 10.0
_MIB: Final = 1024 * 1024


class Owner(Protocol):
    """Who uses the processes."""

    def started(self, process: PoolProcess) -> None:
        """Take a new process."""

    def not_started(self, error: PoolBroken) -> None:
        """Hear that a process that was asked for does not come."""

    def busy(self) -> Collection[PoolProcess]:
        """Return the processes that run a step now."""

    def mended(self) -> None:
        """Hear that a process was started and ran a step."""


class Keeper:
    """The thread that owns the server and the life of each process."""

    def __init__(
        self, launch: Callable[[], Server], owner: Owner, *, max_memory_mib: int, recycle_memory_mib: int
    ) -> None:
        self._launch = launch
        self._owner = owner
        self._max_bytes, self._recycle_bytes = max_memory_mib * _MIB, recycle_memory_mib * _MIB
        self._memory = PoolMemory(self._max_bytes)
        self._server: Server | None = None
        self._wanted = 0
        self._is_broken = False
        self._mend_pause = Pause(MEND)
        self._mend_at = Deadline.within(0, SYSTEM)
        self._orders: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self._loop = Loop("pool-keeper", self._round, events.loop_failed)

    @property
    def tick(self) -> int:
        """Rounds so far, of which there is at least one in some seconds once it was started; 0 before."""
        return self._loop.tick

    def start(self) -> None:
        """Start the thread; a second call does nothing."""
        self._loop.start()

    def grow(self) -> None:
        """Start one more process; the owner hears what became of it."""
        self._orders.put(self._want_one)

    def end(self, process: PoolProcess) -> Future[Ending]:
        """Kill a process with all it has started, wherever it stands; the future tells how it ended."""
        ended: Future[Ending] = Future()
        with self._closing:
            if not self._closed:
                self._orders.put(lambda: self._end(process, ended))
                return ended
        process.kill()
        process.close()
        ended.set_result(Ending())
        return ended

    def mend(self) -> None:
        """Take the pool for broken: try, with pauses, to start a process and run a step, until that works."""
        self._orders.put(self._break)

    def stop(self, deadline: Deadline, idle: Collection[PoolProcess], busy: Collection[PoolProcess]) -> bool:
        """End the thread, then kill all processes and the server; who uses one that is busy hears of it."""
        self._loop.ask_to_stop()
        self._orders.put(None)
        ended = self._loop.stop(deadline)
        for process in (*idle, *busy):
            process.kill()  # before anybody closes one
        with self._closing:
            self._closed = True
        while not self._orders.empty():
            if (order := self._orders.get()) is not None:
                order()
        for process in idle:
            process.close()
        if self._server is not None:
            for process in (*idle, *busy):
                self._server.reap(process.pid)
            self._server.stop()
            self._server = None
        return ended

    def _round(self, stopping: threading.Event) -> None:
        try:
            order = self._orders.get(timeout=self._pause_s())
        except Empty:
            order = None
        if order is not None:
            order()
        if stopping.is_set():
            return
        self._look()
        self._serve()

    def _pause_s(self) -> float:
        return LOOK_S if self._wanted or self._is_broken or self._owner.busy() else IDLE_S

    def _want_one(self) -> None:
        self._wanted += 1

    def _break(self) -> None:
        self._is_broken = True
        self._mend_at = Deadline.within(self._mend_pause.next_s(), SYSTEM)

    def _look(self) -> None:
        """End what holds too much memory, and what its caller should have given back."""
        busy = {process.pid: process for process in self._owner.busy()}
        for pid, held in self._memory.look(busy).items():
            process = busy[pid]
            process.is_worn = process.is_worn or held.alone_bytes > self._recycle_bytes
            if held.together_bytes > self._max_bytes:
                self._condemn(process, OutOfMemory(resident_mib=held.together_bytes // _MIB))
            elif SYSTEM.monotonic() > process.free_by_s:
                self._condemn(process, TimedOut("a CPU step was not given back"))

    def _condemn(self, process: PoolProcess, why: SmenaError) -> None:
        """Kill a process under a running step: its caller finds it ended, and why, and has it reaped."""
        process.condemned = process.condemned or why
        process.kill()

    def _serve(self) -> None:
        """Start what is wanted as soon as the server can, and mend what is broken."""
        try:
            if self._wanted and self._has_server():
                self._start_one()
            if self._is_broken and self._mend_at.passed() and self._has_server():
                self._prove()
        except PoolBroken as error:
            self._give_up(error)

    def _has_server(self) -> bool:
        if self._server is not None and not self._server.lives():
            self._server.stop()
            self._server = None
        if self._server is None:
            self._server = self._launch()
        return self._server.is_up(LOOK_S)

    def _start_one(self) -> None:
        assert self._server is not None  # noqa: S101 - asked for by `_has_server` just now
        process = self._server.fork()
        self._wanted -= 1
        self._owner.started(process)

    def _prove(self) -> None:
        """Run a step that does nothing in a process of its own."""
        assert self._server is not None  # noqa: S101 - asked for by `_has_server` just now
        process = self._server.fork()
        try:
            process.call(pool_frames.request(len, ((),), _MIB), _PROOF_S)
        except Exception as error:
            raise PoolBroken("a pool process did not run an empty step") from error
        finally:
            self._end(process, Future())
        self._is_broken = False
        self._mend_pause.reset()
        self._owner.mended()

    def _give_up(self, error: PoolBroken) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None
        if self._is_broken:
            self._mend_at = Deadline.within(self._mend_pause.next_s(), SYSTEM)
        while self._wanted:
            self._wanted -= 1
            self._owner.not_started(error)

    def _end(self, process: PoolProcess, ended: Future[Ending]) -> None:
        """End a process. Who waits hears of it whatever goes wrong here, else a job would wait as long as it may."""
        ending = Ending()
        try:
            process.kill()
            if self._server is not None:
                ending = self._server.reap(process.pid)
        finally:
            try:
                process.close()
            finally:
                ended.set_result(ending)
