"""Keep a nursery: start it, hear it, ask it for children.

The supervisor's side of `workers.execution.nursery`; it knows that process by its command line only.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from smena.backoff import Backoff, Pause
from smena.telemetry import events
from workers.process.orders import Orders
from workers.process.pipe import Failed, Fork, Message, Ready, Reaped, receive_packet, send_packet

StartNursery = Callable[[Orders, socket.socket], int]
State = Literal["gone", "loading", "ready"]


@dataclass(slots=True, eq=False)
class NurseryHandle:
    """One role's nursery. The arbiter alone uses it; times are monotonic seconds."""

    orders: Orders
    start_program: StartNursery
    backoff: Backoff
    state: State = "gone"
    pid: int = 0
    due_s: float = 0.0
    started_s: float = 0.0
    failure: str = ""
    _line: socket.socket | None = None
    _pause: Pause = field(init=False)

    def __post_init__(self) -> None:
        self._pause = Pause(self.backoff)

    def successor(self) -> NurseryHandle:
        """Return another of the same orders, not started yet: it will load the code as it is then.

        It stands back from the processor while it does, for this one and its children are at work.
        """
        return NurseryHandle(msgspec.structs.replace(self.orders, stands_back=True), self.start_program, self.backoff)

    def start(self, now_s: float) -> None:
        """Start the process; it is ready when it says so."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, ExitStack() as unless_started:
            unless_started.callback(ours.close)
            self.pid = self.start_program(self.orders, theirs)
            unless_started.pop_all()
        ours.settimeout(0.0)
        self._line, self.state, self.started_s, self.failure = ours, "loading", now_s, ""
        events.emit(events.NURSERY_STARTED, role=self.orders.role, nursery=self.pid)

    def fileno(self) -> int | None:
        """Return the descriptor to wait on, if there is one."""
        return self._line.fileno() if self._line is not None else None

    def hear(self) -> Ready | None:
        """Take in what it says; return its word that it has become ready, if that is it."""
        message: Message | None = None
        if self._line is not None:
            with suppress(BlockingIOError, ConnectionError):
                message, _ = receive_packet(self._line)
                if message is None:
                    self._hang_up()
        if isinstance(message, Failed):
            self.failure = message.error
        if isinstance(message, Ready):
            self.state = "ready"
            self._pause.reset()
            return message
        return None

    def fork(self, orders: Orders, end: socket.socket) -> int:
        """Ask for a child; it tells its pid over its own pipe, so this returns 0."""
        self._tell(Fork(msgspec.to_builtins(orders)), [end.fileno()])
        return 0

    def reaped(self, pid: int) -> None:
        """Tell it that a child is gone."""
        self._tell(Reaped(pid))

    def kill(self) -> None:
        """End it now; no job runs there."""
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def bury(self, now_s: float) -> None:
        """Note that the process is gone."""
        self._hang_up()
        self.orders = msgspec.structs.replace(self.orders, stands_back=False)
        self.pid, self.state, self.due_s = 0, "gone", now_s + self._pause.next_s()

    def postpone(self, now_s: float) -> None:
        """Note that it could not be started just now."""
        self.due_s = now_s + self.backoff.cap_s

    def _tell(self, message: Message, descriptors: list[int] | None = None) -> None:
        if self._line is not None:
            send_packet(self._line, message, descriptors or [])

    def _hang_up(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None
