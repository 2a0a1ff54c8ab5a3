"""When a publishing channel is given up for another: after nacks and silence, and not more often than it helps."""

from __future__ import annotations

from datetime import UTC, datetime

from smena.amqp.doubt import Doubt, Remedy
from smena.clock import MovedClock

TIMEOUT_S = 10.0


def a_doubt() -> tuple[Doubt, MovedClock]:
    clock = MovedClock(datetime(2026, 1, 1, tzinfo=UTC))
    return Doubt(TIMEOUT_S, clock), clock


def test_a_nack_costs_the_channel_at_once_and_the_next_one_only_a_second_later() -> None:
    doubt, clock = a_doubt()
    assert doubt.refused() is Remedy.CHANNEL
    clock.advance(0.9)
    assert doubt.refused() is Remedy.NOTHING
    clock.advance(0.2)
    assert doubt.refused() is Remedy.CHANNEL


def test_a_queue_that_refuses_for_an_hour_costs_few_channels() -> None:
    doubt, clock = a_doubt()
    channels = 0
    for _ in range(36_000):
        channels += doubt.refused() is Remedy.CHANNEL
        clock.advance(0.1)
    assert channels < 130


def test_after_a_calm_time_a_nack_costs_the_channel_as_at_first() -> None:
    doubt, clock = a_doubt()
    for _ in range(200):
        doubt.refused()
        clock.advance(1)
    clock.advance(61)
    assert doubt.refused() is Remedy.CHANNEL
    clock.advance(1.1)
    assert doubt.refused() is Remedy.CHANNEL


def test_silence_since_the_question_costs_the_connection() -> None:
    doubt, clock = a_doubt()
    clock.advance(3600)  # nothing was asked all the time
    doubt.asked()
    clock.advance(4.9)
    assert doubt.silent() is not Remedy.CONNECTION
    clock.advance(0.2)
    assert doubt.silent() is Remedy.CONNECTION


def test_silence_about_one_message_while_others_are_answered_costs_the_channel() -> None:
    doubt, clock = a_doubt()
    doubt.opened()
    doubt.asked()
    clock.advance(TIMEOUT_S)
    doubt.answered()
    assert doubt.silent() is Remedy.CHANNEL


def test_a_channel_that_was_opened_late_is_not_blamed_for_what_had_waited_before() -> None:
    doubt, clock = a_doubt()
    clock.advance(TIMEOUT_S - 1)
    doubt.opened()
    doubt.asked()
    clock.advance(1)
    assert doubt.silent() is Remedy.NOTHING
