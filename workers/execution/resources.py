"""Open the books' resources before the first job and close them after the last."""

from __future__ import annotations

from typing import Any, Final

from smena.book.resources import Resources
from smena.clock import SYSTEM, Deadline
from smena.telemetry import events
from smena.telemetry.plain_text import error_text
from workers.execution.coroutines import Coroutines

OPEN_S: Final = 60.0
"""Longest wait for one async resource to open or close."""


class OpenResources:
    """The resources of a process as a service; async ones live in its event loop."""

    def __init__(self, resources: Resources, coroutines: Coroutines) -> None:
        self.name = "resources"
        self._resources = resources
        self._coroutines = coroutines

    def start(self) -> None:
        """Open all; the error of one that cannot be opened rises, after those before it were closed."""
        self._resources.open_all(self._in_loop, _closing_failed)

    def stop(self, _deadline: Deadline) -> bool:
        """Close all that are open, the last first."""
        self._resources.close_all(self._in_loop, _closing_failed)
        return True

    def _in_loop(self, coroutine: Any) -> Any:
        return self._coroutines.call(coroutine, Deadline.within(OPEN_S, SYSTEM))


def _closing_failed(resource: str, error: BaseException) -> None:
    events.emit(events.HOOK_FAILED, hook=f"closing {resource}", told="", error=error_text(error))
