"""Turn signals into a queue that the arbiter's loop reads, and tell the terminal's from those of a process.

The signals are blocked and read from a descriptor (`signalfd`, Linux), so no handler ever runs and no signal meets
half-changed state. The kernel says who sent each: Ctrl-Z, a hung-up line or a write from the background come from the
terminal, ``kill`` and service managers are processes. Blocked, a terminal's TSTP, TTIN and TTOU stop nobody.

Programs that are started inherit the block; `workers.process.lineage.hear_signals` takes it off in every child.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
from collections.abc import Callable, Iterable
from typing import NamedTuple

_SET_BYTES = 128
"""The size of `sigset_t` in glibc and musl."""
_SFD_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
_INFO_BYTES = 128
_INFO = struct.Struct("=Iii")
"""The head of `struct signalfd_siginfo`: number, errno, code (`man 2 signalfd`)."""
_READ_INFOS = 32


_STEERING = frozenset({signal.SIGHUP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGTSTP, signal.SIGUSR1})
"""What steers a supervisor that runs, and by itself would end or stop a process."""


class Heard(NamedTuple):
    """One signal; ``by_kernel`` when no process sent it (the terminal did)."""

    number: signal.Signals
    by_kernel: bool = False


class SignalQueue:
    """Hear the given signals between `open` and `close`; main thread only, before other threads are started."""

    def __init__(self, numbers: Iterable[signal.Signals]) -> None:
        self._numbers = frozenset(numbers)
        self._before: set[int] = set()
        self._descriptor = -1

    def open(self) -> None:
        """Begin to hear."""
        if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
            self._numbers -= {signal.SIGHUP}  # started by nohup: the terminal's end is meant to pass unheard
        self._before = set(signal.pthread_sigmask(signal.SIG_BLOCK, self._numbers))
        self._descriptor = _signalfd(self._numbers)

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._descriptor

    def take(self) -> list[Heard]:
        """Return the signals that have come, in the kernel's order; several of one kind may be one."""
        with contextlib.suppress(BlockingIOError):
            infos = os.read(self._descriptor, _READ_INFOS * _INFO_BYTES)
            return [_heard(infos[at : at + _INFO.size]) for at in range(0, len(infos), _INFO_BYTES)]
        return []

    def pass_over(self) -> None:
        """Let what comes from now on pass: the process ends, and how is decided. QUIT ends it at once all the same."""
        for number in self._numbers - {signal.SIGQUIT, signal.SIGCHLD}:
            signal.signal(number, signal.SIG_IGN)

    def close(self) -> None:
        """Give the signals back to whoever had them; what came last is dropped."""
        self.take()
        os.close(self._descriptor)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)


def hold_steering_back() -> Callable[[], None]:
    """Keep signals that steer for the `SignalQueue` which is still to be opened; call what is returned at the end.

    The code of a fleet takes a second to be imported, and a reload that is asked for meanwhile must not end it. What
    ends a process (TERM, INT, QUIT) still does so at once: nothing has been started.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STEERING)

    def let_go() -> None:
        while signal.sigtimedwait(_STEERING, 0) is not None:
            pass  # it came too late for anyone, and must not end us now
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    return let_go


def _heard(head: bytes) -> Heard:
    number, _, code = _INFO.unpack(head)
    return Heard(signal.Signals(number), by_kernel=code > 0)


def _signalfd(numbers: Iterable[signal.Signals]) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    chosen = ctypes.create_string_buffer(_SET_BYTES)
    library.sigemptyset(chosen)
    for number in numbers:
        library.sigaddset(chosen, int(number))
    descriptor: int = library.signalfd(-1, chosen, _SFD_FLAGS)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "signalfd")
    return descriptor
