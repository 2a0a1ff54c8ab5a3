"""Say how the roles' loops report a round that failed."""

from __future__ import annotations

from smena.telemetry import events
from smena.telemetry.plain_text import error_text


def report_failure(loop: str, error: BaseException) -> None:
    """Tell of it; the loop goes on after its pause."""
    events.emit(events.LOOP_FAILED, loop=loop, error=error_text(error))
