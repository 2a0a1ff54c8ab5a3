"""Turn signals into a queue that the arbiter's loop reads.

The C-level handler writes each signal's number into a socket; nothing else happens in a handler, so no signal ever
meets half-changed state.
"""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Iterable
from typing import Any


class SignalQueue:
    """Hear the given signals between `open` and `close`; main thread only."""

    def __init__(self, numbers: Iterable[signal.Signals]) -> None:
        self._numbers = tuple(numbers)
        self._before: dict[signal.Signals, Any] = {}
        self._out, self._in = socket.socketpair()
        for end in (self._out, self._in):
            end.settimeout(0.0)

    def open(self) -> None:
        """Begin to hear."""
        signal.set_wakeup_fd(self._in.fileno(), warn_on_full_buffer=False)
        for number in self._numbers:
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue  # started by nohup: the terminal's end is meant to pass unheard
            self._before[number] = signal.signal(number, _left_to_the_loop)

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._out.fileno()

    def take(self) -> list[signal.Signals]:
        """Return the signals that have come, in their order."""
        with contextlib.suppress(BlockingIOError):
            return [signal.Signals(number) for number in self._out.recv(4096)]
        return []

    def close(self) -> None:
        """Give the signals back to whoever had them."""
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
        self._out.close()
        self._in.close()


def _left_to_the_loop(_number: int, _frame: object) -> None:
    """Do nothing: the number is in the socket already."""
