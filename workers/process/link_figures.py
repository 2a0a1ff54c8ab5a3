"""Show how this process stands with the broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from smena.telemetry import events, metric
from smena.telemetry.event import Occurrence
from smena.telemetry.tally import Board

_COUNTED: Final = (events.LINK_CONNECTED, events.LINK_LOST, events.LINK_BLOCKED, events.LINK_UNBLOCKED)


def count_links(board: Board) -> Callable[[], None]:
    """Follow the connections as they tell of themselves; return the way out."""
    blocked: dict[str, float] = {}
    board.gauge(metric.BLOCKED, blocked.copy)

    def count(occurrence: Occurrence) -> None:
        connection = str(occurrence.fields["connection"])
        blocked[connection] = float(occurrence.event is events.LINK_BLOCKED)
        if occurrence.event is events.LINK_CONNECTED and occurrence.fields["epoch"] > 1:
            board.add(metric.RECONNECTS, connection)

    return events.subscribe(count, only=_COUNTED)
