"""Unwind the stack when SIGTERM comes, so that nothing is left running."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from types import TracebackType
from typing import Self


class Ending:
    """SIGTERM as `SystemExit`, while it is entered.

    An exception out of a signal handler is lost where Python calls back but cannot raise (a fork's callbacks, a
    `__del__`); so whoever waits looks here as well.
    """

    def __init__(self) -> None:
        self._told = False
        self._restored = ExitStack()

    def __enter__(self) -> Self:
        self._restored.callback(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, self._tell))
        return self

    def __exit__(self, _kind: type[BaseException] | None, _fault: object, _trace: TracebackType | None) -> None:
        self._restored.close()

    def look(self) -> None:
        """Raise `SystemExit` if SIGTERM has come."""
        if self._told:
            raise SystemExit(128 + signal.SIGTERM)

    def _tell(self, _number: int, _frame: object) -> None:
        self._told = True
        self.look()
