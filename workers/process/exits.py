"""Name the ways a process of the fleet ends; `docs/reference/signals.md` lists them.

A process that a signal ended has no exit code of its own: its parent sees the signal, a shell shows 128 + number.
"""

from __future__ import annotations

import enum


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
