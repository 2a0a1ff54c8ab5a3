"""Say how long a message waits before it is sent on.

Every door that takes a delay reads it here, so that what is no time is refused before anything is sent.
"""

from __future__ import annotations

import math
from datetime import timedelta

from smena.errors import Unsendable

Delay = float | timedelta
"""Seconds, or a `timedelta`."""


def seconds_of(delay: Delay) -> float:
    """Return the delay in seconds; raise `Unsendable` for what is no time from now on (negative, NaN, no number)."""
    seconds: object = delay.total_seconds() if isinstance(delay, timedelta) else delay
    if not isinstance(seconds, int | float) or not math.isfinite(seconds) or seconds < 0:
        raise Unsendable("a delay is a timedelta or a number of seconds, zero or more", delay=repr(delay)[:80])
    return seconds
