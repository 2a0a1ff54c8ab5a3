"""Show on a process's board what it leads, and what came of its tries."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smena.guarantees.election.leadership import Leadership
from smena.telemetry import events, metric
from smena.telemetry.event import Occurrence
from smena.telemetry.tally import Board


def show(board: Board, leaderships: Sequence[Leadership]) -> Callable[[], None]:
    """Count the tries of this process and give the state of its leaderships as gauges; return the way out."""
    board.gauge(metric.LEADER, lambda: {one.duty: float(one.term() is not None) for one in leaderships})
    board.gauge(metric.LEADER_HELD, lambda: _of_those_that_lead(leaderships, lambda one: one.held_s()))
    board.gauge(metric.LEADER_RENEWED, lambda: _of_those_that_lead(leaderships, lambda one: one.renewed_ago_s()))
    duties = {one.duty for one in leaderships}

    def count(occurrence: Occurrence) -> None:
        duty = str(occurrence.fields["duty"])
        if duty not in duties:
            return
        match occurrence.event:
            case events.LEADER_BECAME:
                board.add(metric.LEADER_ATTEMPTS, duty, "won")
            case events.LEADER_PASSED_OVER:
                board.add(metric.LEADER_ATTEMPTS, duty, "lost")
            case events.LEADER_LOST:
                board.add(metric.LEADER_LOSSES, duty, str(occurrence.fields["reason"]))

    return events.subscribe(count, only=[events.LEADER_BECAME, events.LEADER_PASSED_OVER, events.LEADER_LOST])


def _of_those_that_lead(
    leaderships: Sequence[Leadership], figure: Callable[[Leadership], float | None]
) -> dict[str, float]:
    figures = {one.duty: figure(one) for one in leaderships}
    return {duty: seconds for duty, seconds in figures.items() if seconds is not None}
