"""Events are told to whom they concern, and observers fail open."""

from collections.abc import Iterator
from typing import Any

import pytest

from smena.telemetry.event import Event, Occurrence
from smena.telemetry.events import HOOK_FAILED, JOB_DONE, JOB_RETRIED, ONCE_HIT, Exchange


@pytest.fixture
def exchange() -> Iterator[Exchange]:
    return Exchange()  # type: ignore[return-value]


def names(seen: list[Occurrence]) -> list[str]:
    return [occurrence.event.name for occurrence in seen]


def test_a_subscriber_hears_its_level_and_above(exchange: Exchange) -> None:
    seen: list[Occurrence] = []
    exchange.subscribe(seen.append, level="info")
    for event in (JOB_DONE, ONCE_HIT, JOB_RETRIED):
        exchange.emit(event, job="1")
    assert names(seen) == ["once.hit", "job.retried"]
    assert seen[0].fields == {"job": "1"}


def test_a_subscriber_may_want_certain_events_only(exchange: Exchange) -> None:
    seen: list[Occurrence] = []
    exchange.subscribe(seen.append, only=[JOB_DONE])
    exchange.emit(JOB_DONE)
    exchange.emit(JOB_RETRIED)
    assert names(seen) == ["job.done"]


def test_an_event_is_wanted_while_somebody_listens(exchange: Exchange) -> None:
    assert not exchange.wanted(JOB_RETRIED)
    unsubscribe = exchange.subscribe(lambda _occurrence: None, level="info")
    assert exchange.wanted(JOB_RETRIED)
    assert not exchange.wanted(JOB_DONE)
    unsubscribe()
    unsubscribe()
    assert not exchange.wanted(JOB_RETRIED)


def test_a_subscriber_that_raises_is_told_of_and_ignored(exchange: Exchange) -> None:
    seen: list[Occurrence] = []

    def broken(_occurrence: Occurrence) -> None:
        raise ZeroDivisionError

    exchange.subscribe(broken)
    exchange.subscribe(seen.append)
    exchange.emit(ONCE_HIT, job="1")
    assert sorted(names(seen)) == ["hook.failed", "once.hit"]
    failure = next(occurrence for occurrence in seen if occurrence.event is HOOK_FAILED)
    assert failure.fields["told"] == "once.hit"
    assert failure.fields["error"] == "ZeroDivisionError"


def test_events_may_carry_any_field_name(exchange: Exchange) -> None:
    seen: list[Occurrence] = []
    exchange.subscribe(seen.append)
    fields: dict[str, Any] = {"self": 1, "event": 2, "level": 3}
    exchange.emit(Event("test.odd", "info", "Odd names."), **fields)
    assert seen[0].fields == fields
