"""Catch what no seam has caught, tell all that is known of it, and have the process end in order.

A thread that is gone, a task whose error nobody looked at, a ``__del__`` that raised: the process would go on with a
part missing. So the interpreter's last resorts (`threading.excepthook`, `sys.unraisablehook`, the event loop's handler)
lead here. What the main thread raises comes out of ``run`` and ends the process anyway.

One kind allows no order: a job has closed descriptors that were not its own. Connections go on over numbers that are
other files' by then, and commit what nobody asked for; so the process ends at once, and what ran is looked into.

One is nobody's error in particular: a process that has run out of means (descriptors, memory, threads) would refuse job
after job while its neighbours are idle. It ends in order, and another takes its place.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from smena.telemetry import events
from smena.telemetry.plain_text import error_text
from workers.process import means
from workers.process.exits import Exit
from workers.process.flightfile import Running

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_STACK_CHARACTERS = 4000

_DESCRIPTOR_GONE: Final = frozenset({errno.EBADF, errno.ENOTSOCK, errno.EINVAL})
"""What a loop's own descriptor answers when it was closed, or its number is another file's by now."""

_OWN_THREADS: Final = frozenset({"link", "smena-parent"})
"""Threads that wait on descriptors of the fleet's own, and run no code of an actor: not even `SystemExit` is theirs."""


class Mishaps:
    """The last resorts of one process. ``end`` is told the error in words, on whatever thread it happened.

    ``mark`` is called first of all when what the process settles by is gone: acks of what has just ended may never
    leave it.
    """

    def __init__(
        self,
        end: Callable[[str], object],
        running: Callable[[], Sequence[Running]],
        mark: Callable[[], object] = lambda: None,
    ) -> None:
        self._end = end
        self._running = running
        self._mark = mark
        self._telling_spent = threading.Lock()
        """Held for good by the first that finds the process without means."""

    def install(self) -> None:
        """Take over the interpreter's hooks; call it once, in a process of the fleet."""
        threading.excepthook = self._in_thread
        sys.unraisablehook = self._unraisable

    def tell(self, where: str, error: BaseException | None, said: str = "") -> None:
        """Tell of one, then have the process end."""
        self._end(f"a bug in {where}: {self._emit(where, error, said)}")

    def end_without_descriptors(self, where: str, error: BaseException | None) -> None:
        """End the process at once if this error, out of a loop of its own, says that its descriptors are gone.

        The supervisor is not told by the pipe, whose number may be another file's too: it sees the exit.
        """
        if isinstance(error, OSError) and error.errno in _DESCRIPTOR_GONE:
            self._mark()
            try:
                self._emit(where, error, "a descriptor of the process's own is gone:")
            finally:
                os._exit(Exit.CRASHED)

    def end_if_spent(self, error: BaseException) -> bool:
        """Say whether a connection failed with this error because the process has run out of means; then end it."""
        lacked = means.shortage(error)
        if lacked is not None:
            self._end_spent(lacked)
        return lacked is not None

    def end_if_out_of_descriptors(self) -> None:
        """Try whether there is a descriptor left, and have the process end in order if there is none."""
        lacked = means.missing()
        if lacked is not None and lacked.errno == errno.EMFILE:  # not the machine's want, which all would die of
            self._end_spent(lacked)

    def _end_spent(self, lacked: BaseException) -> None:
        if self._telling_spent.acquire(blocking=False):
            self._end(f"it has run out of means: {self._emit('means', lacked, '')}")

    def in_loop(self, _loop: object, context: dict[str, Any]) -> None:
        """Handle what an event loop could not; the form of `asyncio`'s exception handler."""
        self.tell("the event loop", context.get("exception"), str(context.get("message", "")))

    def out_of_loop(self, error: BaseException) -> None:
        """Look at what ended the event loop itself, before it is begun again."""
        self.end_without_descriptors("the event loop", error)

    def _emit(self, where: str, error: BaseException | None, said: str) -> str:
        stack = "" if error is None else "".join(traceback.format_exception(error))
        what = " ".join(filter(None, (said, error_text(error) if error is not None else "")))
        events.emit(
            events.PROCESS_BUG,
            where=where,
            thread=threading.current_thread().name,
            error=what,
            stack=stack[-_STACK_CHARACTERS:],
            running=[{"job": job.job_id, "actor": job.actor, "attempt": job.attempt} for job in self._running()],
        )
        return what

    def _in_thread(self, args: threading.ExceptHookArgs) -> None:
        name = args.thread.name if args.thread is not None else "?"
        if name in _OWN_THREADS or args.exc_type is not SystemExit:
            if name in _OWN_THREADS:
                self.end_without_descriptors(f"the thread {name}", args.exc_value)
                self._mark()
            self.tell(f"the thread {name}", args.exc_value)

    def _unraisable(self, args: UnraisableHookArgs) -> None:
        self.tell("what cannot raise", args.exc_value, f"{args.err_msg or 'ignored in'}: {args.object!r:.200}")
