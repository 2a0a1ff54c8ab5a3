"""Unwind the stack when a signal ends the program, so that it leaves no service and no process running."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Self

ENDINGS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ending:
    """The first of `ENDINGS` as `SystemExit` with 128 and its number, while it is entered; later ones are the same end.

    One that was ignored before (``nohup``) still is. An exception out of a signal handler is lost where Python calls
    back but cannot raise (a fork's callbacks, a `__del__`); so whoever waits looks here as well.
    """

    def __init__(self) -> None:
        self._came: int | None = None
        self._restored = ExitStack()

    def __enter__(self) -> Self:
        for number in ENDINGS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._restored.callback(signal.signal, number, signal.signal(number, self._tell))
        return self

    def __exit__(self, _kind: type[BaseException] | None, _fault: object, _trace: TracebackType | None) -> None:
        self._restored.close()

    def look(self) -> None:
        """Raise `SystemExit` if a signal has come."""
        if self._came is not None:
            raise SystemExit(128 + self._came)

    def _tell(self, number: int, _frame: object) -> None:
        if self._came is None:
            self._came = number
            self.look()
