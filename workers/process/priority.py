"""Stand back from the processor, for good or for a while.

Linux weighs processes twice. By their nice value, within their control group; and where it makes a group of each
session (autogroup, outside of control groups with a weight of their own), only these groups by a nice value of theirs.
Every child leads a session, so there its own nice value changes nothing (measured: half of a contended processor
with nice 10, a tenth with the group's). So both are set.

The way back differs: an ordinary user may lower his group's nice value down to 0 at any time, his processes' only as
far as `RLIMIT_NICE` or `CAP_SYS_NICE` allow. What could not be taken back is not begun.
"""

from __future__ import annotations

import os
import re
import resource
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

STEPS: Final = 10
_LEAST: Final = 19
_GROUP: Final = Path("/proc/self/autogroup")
_CAP_SYS_NICE: Final = 23
_TRIES: Final = 30
_PAUSE_S: Final = 0.05
"""The kernel lets ordinary users change a group ten times a second, all of them together."""


def stand_back(steps: int) -> None:
    """Stand back for good, with all that is started from here."""
    os.nice(steps)
    if steps and _leads_session():
        _set_group(min(steps, _LEAST))


class StandingBack:
    """Stand back for a while: `begin` on the thread that works, `end` for all threads there are by then.

    Threads and processes that are started in between stand back too. A process that does not lead its session
    leaves the session's group as it is.
    """

    def __init__(self) -> None:
        self._nice: int | None = None
        self._group: int | None = None

    def begin(self, steps: int = STEPS) -> None:
        """Stand back, as far as the way back is open."""
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        if _may_return_to(nice):
            os.setpriority(os.PRIO_PROCESS, 0, min(nice + steps, _LEAST))
            self._nice = nice
        group = _group_nice()
        if group is not None and group >= 0 and _leads_session() and _set_group(min(group + steps, _LEAST)):
            self._group = group

    def end(self) -> None:
        """Step forward to where it stood; does nothing where it does not stand back."""
        if self._group is not None:
            _set_group(self._group)
        if self._nice is not None:
            while _raise_threads(self._nice):
                pass  # a thread that still stood back may have started another
        self._nice = self._group = None


def _raise_threads(nice: int) -> bool:
    """Give all threads that nice value; return whether any had another."""
    changed = False
    for thread in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # it has ended
            if os.getpriority(os.PRIO_PROCESS, int(thread.name)) > nice:
                os.setpriority(os.PRIO_PROCESS, int(thread.name), nice)
                changed = True
    return changed


def _may_return_to(nice: int) -> bool:
    limit, _ = resource.getrlimit(resource.RLIMIT_NICE)
    if limit == resource.RLIM_INFINITY or limit >= 20 - nice:
        return True
    with suppress(OSError):
        found = re.search(r"^CapEff:\s+([0-9a-f]+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
        return found is not None and bool(int(found[1], 16) >> _CAP_SYS_NICE & 1)
    return False


def _leads_session() -> bool:
    return os.getsid(0) == os.getpid()


def _group_nice() -> int | None:
    """Return the nice value of the session's group; None where sessions are no groups."""
    with suppress(OSError, ValueError):
        return int(_GROUP.read_text().rpartition(" ")[2])
    return None


def _set_group(nice: int) -> bool:
    """Set the nice value of the session's group; return whether that was done."""
    for _ in range(_TRIES):
        try:
            _GROUP.write_text(str(nice))
            return True
        except BlockingIOError:
            time.sleep(_PAUSE_S)
        except OSError:
            return False
    return False
