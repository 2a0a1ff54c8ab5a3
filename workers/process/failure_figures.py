"""Count what failed in this process and was survived."""

from __future__ import annotations

from collections.abc import Callable

from smena.telemetry import events, metric
from smena.telemetry.event import Occurrence
from smena.telemetry.tally import Board


def count_failures(board: Board) -> Callable[[], None]:
    """Raise the board's counters when a hook or a round of a loop fails; return the way out."""

    def count(occurrence: Occurrence) -> None:
        match occurrence.event:
            case events.HOOK_FAILED:
                board.add(metric.HOOK_FAILURES, str(occurrence.fields["hook"]))
            case events.LOOP_FAILED:
                board.add(metric.LOOP_FAILURES, str(occurrence.fields["loop"]))

    return events.subscribe(count, only=[events.HOOK_FAILED, events.LOOP_FAILED])
