"""Interrupt what one seat runs when its time is up: once, and never anything else.

A seat arms its watch when the actor's own code begins and disarms it when that code has ended; the machine's code
around it is never struck. Whoever looks at the watches (`workers/execution/time_watch.py`) strikes one that is due.

In a thread the interruption is an exception that the interpreter raises at the thread's next line, which may come after
the code has ended. So arming, disarming and striking are told apart by the watch's lock: a watch that was disarmed is
never struck, and what was struck and not raised yet is taken back by `disarm`. An armed watch is struck at most once,
so after one `TimeUp` was seen no other can come until it is armed again. A job on the event loop is cancelled instead,
by the loop, between two of its steps.

A step within the job (`ctx.step`) tightens the watch for a while: `tighten` and `loosen`.
"""

from __future__ import annotations

import asyncio
import ctypes
import math
import threading
from typing import Final

from smena.errors import TimeUp
from smena.telemetry.metric import STEP_TIME
from smena.telemetry.tally import Tally

NEVER: Final = math.inf

TIME_UP_CANCEL: Final = "smena: the job's time is up"
"""The message of the cancellation that interrupts a job on the event loop."""

_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
_raise_in.argtypes = (ctypes.c_ulong, ctypes.py_object)
_raise_in.restype = ctypes.c_int


class _TakenBack(BaseException):
    """Comes in place of a `TimeUp` that nobody is to see."""


def _take_back(thread_ident: int) -> None:
    """Let nothing be on its way to this thread any more. Raises the `TimeUp` that comes before it can be replaced.

    Another exception takes its place and is caught here. Setting none would do for this thread, but leaves the
    interpreter's flag up, which only a raised one takes down: from then on every call in every thread takes the slow
    way, and on CPython 3.11 a thread that is traced (coverage, a debugger) stands at its next call for ever.
    """
    try:
        while True:  # it comes as the call returns; one that a finalizer caught is sent again
            _raise_in(thread_ident, ctypes.py_object(_TakenBack))
    except _TakenBack:
        return


class Stopwatch:
    """The time of one seat. ``bound`` is whose time it is: what strikes is kept in ``struck``."""

    __slots__ = ("_tally", "_thread_ident", "bound", "due_s", "job_due_s", "lock", "struck", "task")

    def __init__(self, tally: Tally) -> None:
        self.due_s = NEVER
        self.job_due_s = NEVER
        """When the job's own time is up, whatever its steps have."""
        self.bound: object = None
        self.struck: object = None
        self.task: asyncio.Task[object] | None = None
        self.lock = threading.Lock()
        self._thread_ident = 0
        self._tally = tally

    def belongs_to_this_thread(self) -> None:
        """Know the thread to interrupt; once, on that thread."""
        self._thread_ident = threading.get_ident()

    # --- on the seat's own thread ---------------------------------------------------------------

    def arm(self, due_s: float, bound: object) -> None:
        """Let the code that begins now be struck at ``due_s``. Raises `TimeUp` at any line from here on."""
        self.struck = None
        self.bound = bound
        self.due_s = self.job_due_s = due_s

    def disarm(self) -> None:
        """Let nothing be struck any more. May itself raise the `TimeUp` that was on its way: then call it again."""
        with self.lock:
            self.due_s = NEVER
        if self.struck is not None:
            _take_back(self._thread_ident)

    def tighten(self, due_s: float, bound: object) -> tuple[float, object] | None:
        """Strike at ``due_s``, if that is sooner; return what `loosen` is to put back, None where it is not."""
        with self.lock:
            before = self.due_s, self.bound
            if due_s >= before[0] or self.struck is not None:
                return None
            self.due_s, self.bound = due_s, bound
        return before

    def loosen(self, before: tuple[float, object], bound: object) -> bool:
        """Put back what was before `tighten`; return whether ``bound`` has struck. May raise, as `disarm` does."""
        with self.lock:  # also while it is taken back: what strikes next is the job's own time, and stays
            mine = self.struck is bound
            if mine:
                _take_back(self._thread_ident)
                self.struck = None
            self.due_s, self.bound = before
        return mine

    def note_step(self, actor: str, step: str, seconds: float) -> None:
        """Count how long a step took."""
        self._tally.observe(STEP_TIME, f"{actor}|{step}", seconds)

    # --- on the watch's thread, or the event loop ----------------------------------------------------

    def strike(self, now_s: float) -> bool:
        """Interrupt the thread if it is still due; return whether it was."""
        with self.lock:
            if self.due_s > now_s:
                return False
            self.struck, self.due_s = self.bound, NEVER
            _raise_in(self._thread_ident, ctypes.py_object(TimeUp))
            return True

    def strike_task(self, now_s: float) -> bool:
        """Cancel the job's task if it is still due; return whether it was. For the event loop."""
        if self.due_s > now_s or self.task is None:
            return False
        self.struck, self.due_s = self.bound, NEVER
        self.task.cancel(TIME_UP_CANCEL)
        return True

    def put_off(self, seconds: float) -> None:
        """Give back time in which no thread could run."""
        with self.lock:
            self.due_s += seconds
            self.job_due_s += seconds


UNWATCHED: Final = Stopwatch(Tally())
"""For an attempt that no seat runs: it is never struck."""
