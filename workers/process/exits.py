"""Name the ways a process of the fleet ends; `docs/reference/signals.md` lists them.

A process that a signal ended has no exit code of its own: its parent sees the signal, a shell shows 128 + number.
"""

from __future__ import annotations

import enum
import signal


class Exit(enum.IntEnum):
    """Exit codes of the supervisor and of every child."""

    DRAINED = 0
    CRASHED = 1
    MISCONFIGURED = 2
    DRAIN_OVERRAN = 3
    ENDED_NOW = 4
    PARENT_LOST = 5


MEANING: dict[Exit, str] = {
    Exit.DRAINED: "asked to end; what ran has finished, the rest went back",
    Exit.CRASHED: "an error nobody caught ended the process",
    Exit.MISCONFIGURED: "cannot run as configured; the error says what to change; not tried again at the first boot",
    Exit.DRAIN_OVERRAN: "the drain budget ran out; jobs were interrupted or killed, and their messages went back",
    Exit.ENDED_NOW: "QUIT: ended at once; what ran went back",
    Exit.PARENT_LOST: "the supervisor was gone; ended so as not to work unwatched",
}


def signal_name(number: int) -> str:
    """Return what a signal is called: ``SIGKILL``, ``SIGRTMIN+6``, or ``signal 32`` for those of the C library's own.

    A process can die of any number, and `signal.Signals` knows no real-time signal but the first and the last.
    """
    if number in set(signal.Signals):
        return signal.Signals(number).name
    is_real_time = signal.SIGRTMIN < number < signal.SIGRTMAX
    return f"SIGRTMIN+{number - signal.SIGRTMIN}" if is_real_time else f"signal {number}"
