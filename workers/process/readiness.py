"""Wait until a socket or another descriptor can be read or written, whatever its number.

`select.select` refuses numbers above 1023, and a process may have more: a job leaks, or a deployer raised the limit.
"""

from __future__ import annotations

import select
from typing import Protocol


class HasFileno(Protocol):
    """What has a descriptor."""

    def fileno(self) -> int:
        """Return its number."""


def has_come(source: int | HasFileno, within_s: float) -> bool:
    """Wait a little; return whether something has come, or the other side is gone."""
    return _happens(source, select.POLLIN, within_s)


def has_room(sink: int | HasFileno, within_s: float) -> bool:
    """Wait a little; return whether something can be written, or the other side is gone."""
    return _happens(sink, select.POLLOUT, within_s)


def _happens(what: int | HasFileno, event: int, within_s: float) -> bool:
    poll = select.poll()
    poll.register(what, event)
    return bool(poll.poll(within_s * 1000))
