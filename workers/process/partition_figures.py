"""Count what becomes of the partitions that this process shares in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from smena.telemetry import events, metric
from smena.telemetry.event import Occurrence
from smena.telemetry.tally import Board

_COUNTED: Final = (events.PARTITION_PLANNED, events.PARTITION_LOST, events.KEY_STALE_WRITE, events.KEY_STALE_EFFECT)


def count_partitions(board: Board) -> Callable[[], None]:
    """Raise the board's counters when partitions move or are lost; return the way out."""

    def count(occurrence: Occurrence) -> None:
        fields = occurrence.fields
        match occurrence.event:
            case events.PARTITION_PLANNED:
                board.add(metric.PARTITION_MOVES, fields["group"], by=fields["moved"])
            case events.PARTITION_LOST:
                board.add(metric.PARTITION_LOSSES, fields["group"], fields["why"])
            case events.KEY_STALE_WRITE | events.KEY_STALE_EFFECT:
                board.add(metric.STALE_WRITES, fields["queue"])

    return events.subscribe(count, only=_COUNTED)
