"""Count what the roles' events tell of."""

from __future__ import annotations

from collections.abc import Callable

from smena.telemetry import events, metric
from smena.telemetry.event import Occurrence
from smena.telemetry.tally import Board


def count_events(board: Board) -> Callable[[], None]:
    """Raise the board's counters when relay and archivist tell of something; return the way out."""

    late_s: dict[str, float] = {}
    board.gauge(metric.CANARY_LATE, late_s.copy)

    def count(occurrence: Occurrence) -> None:
        fields = occurrence.fields
        match occurrence.event:
            case events.OUTBOX_SENT:
                board.add(metric.OUTBOX_SENT, by=fields["rows"])
            case events.OUTBOX_PARKED:
                board.add(metric.OUTBOX_PARKED)
            case events.ARCHIVIST_MOVED:
                board.add(metric.DEAD_LETTERS_MOVED, fields["queue"], by=fields["moved"])
            case events.RELAY_CLAIM_LOST:
                board.add(metric.STALE_WRITES, "outbox", by=fields["rows"])
            case events.CANARY_LATE | events.CANARY_RETURNED:
                late_s[str(fields["delay_level"])] = fields["late_s"]

    counted = [
        events.OUTBOX_SENT,
        events.OUTBOX_PARKED,
        events.ARCHIVIST_MOVED,
        events.RELAY_CLAIM_LOST,
        events.CANARY_LATE,
        events.CANARY_RETURNED,
    ]
    return events.subscribe(count, only=counted)


def count_ticks(board: Board) -> Callable[[], None]:
    """Raise the board's counters when the scheduler tells of something; return the way out."""

    def count(occurrence: Occurrence) -> None:
        fields = occurrence.fields
        match occurrence.event:
            case events.TICK_FIRED | events.TICK_SKIPPED:
                board.add(metric.TICKS, fields["why"], by=fields.get("count", 1))
            case events.SCHEDULE_FAILED:
                board.add(metric.SCHEDULE_FAILURES, fields["schedule"])
            case events.SCHEDULE_TERM_LOST:
                board.add(metric.STALE_WRITES, "schedule")

    told = [events.TICK_FIRED, events.TICK_SKIPPED, events.SCHEDULE_FAILED, events.SCHEDULE_TERM_LOST]
    return events.subscribe(count, only=told)
