"""When periodic work is due: clock changes, refusals, and what a listing says of them (P43)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from smena.errors import Misdeclared
from smena.timetable import Cron, Every, When, cron, every, read
from smena.timetable.listing import coming
from smena.timetable.when import between


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _local(when: Cron, start: str, count: int) -> list[str]:
    """Return what the zone's clocks show at the next ticks after an instant in UTC, with the offset."""
    ticks = islice(between(when, _utc(start), datetime.max.replace(tzinfo=UTC)), count)
    return [f"{tick.astimezone(when.zone):%m-%d %H:%M:%S%z}" for tick in ticks]


# --- time of day: minute and hour without a star ------------------------------------------------------


def test_a_time_of_day_stays_what_the_clocks_show_through_both_changes() -> None:
    noon = cron("0 12 * * *", tz="US/Pacific")
    assert _local(noon, "2026-03-07T12:00", 3) == ["03-07 12:00:00-0800", "03-08 12:00:00-0700", "03-09 12:00:00-0700"]
    assert _local(noon, "2026-10-31T12:00", 2) == ["10-31 12:00:00-0700", "11-01 12:00:00-0800"]


@pytest.mark.parametrize(
    ("zone", "expression", "start", "ticks"),
    [
        ("US/Pacific", "30 2 * * *", "2026-03-07T12:00", ["03-08 03:00:00-0700", "03-09 02:30:00-0700"]),
        ("Europe/London", "30 1 * * *", "2026-03-28T12:00", ["03-29 02:00:00+0100", "03-30 01:30:00+0100"]),
        # The clocks of Lord Howe go forward by half an hour, at 02:00.
        ("Australia/Lord_Howe", "15 2 * * *", "2026-10-03T12:00", ["10-04 02:30:00+1100", "10-05 02:15:00+1100"]),
        # Samoa moved across the date line and had no 30 December 2011.
        ("Pacific/Apia", "0 12 * * *", "2011-12-29T22:30", ["12-31 00:00:00+1400", "12-31 12:00:00+1400"]),
    ],
)
def test_a_time_of_day_that_is_skipped_comes_at_the_end_of_the_gap(
    zone: str, expression: str, start: str, ticks: list[str]
) -> None:
    assert _local(Cron(expression, zone), start, 2) == ticks


def test_several_times_of_day_in_one_gap_come_together_as_one() -> None:
    quarters = Cron("0,15,30 2,3 * * *", "US/Pacific")
    assert _local(quarters, "2026-03-08T09:00", 4) == [
        "03-08 03:00:00-0700",
        "03-08 03:15:00-0700",
        "03-08 03:30:00-0700",
        "03-09 02:00:00-0700",
    ]


@pytest.mark.parametrize(
    ("zone", "expression", "start", "ticks"),
    [
        ("US/Pacific", "30 1 * * *", "2026-10-31T12:00", ["11-01 01:30:00-0700", "11-02 01:30:00-0800"]),
        ("Europe/London", "30 1 * * *", "2026-10-24T12:00", ["10-25 01:30:00+0100", "10-26 01:30:00+0000"]),
        ("Australia/Lord_Howe", "45 1 * * *", "2026-04-03T20:00", ["04-05 01:45:00+1100", "04-06 01:45:00+1030"]),
    ],
)
def test_a_time_of_day_that_is_shown_twice_comes_the_first_time_only(
    zone: str, expression: str, start: str, ticks: list[str]
) -> None:
    assert _local(Cron(expression, zone), start, 2) == ticks


def test_between_the_two_times_that_an_hour_is_shown_nothing_of_the_past_comes() -> None:
    half_past = Cron("30 1 * * *", "Europe/London")
    second_pass = _utc("2026-10-25T01:10")  # clocks show 01:10 for the second time
    assert half_past.after(second_pass) == _utc("2026-10-26T01:30")


# --- rhythm: a star in minute or hour -------------------------------------------------------------------


def test_a_rhythm_comes_as_often_as_the_clocks_show_it() -> None:
    hourly = Cron("0 * * * *", "US/Pacific")
    forward = _local(hourly, "2026-03-08T08:30", 3)
    assert forward == ["03-08 01:00:00-0800", "03-08 03:00:00-0700", "03-08 04:00:00-0700"]
    back = _local(hourly, "2026-11-01T07:30", 3)
    assert back == ["11-01 01:00:00-0700", "11-01 01:00:00-0800", "11-01 02:00:00-0800"]


def test_a_rhythm_does_not_stumble_over_a_change_of_half_an_hour() -> None:
    """Steps of whole hours would land at 03:30 and lose what stands before it."""
    tens = Cron("*/10 3 * * *", "Australia/Lord_Howe")
    assert _local(tens, "2026-10-03T13:00", 3) == ["10-04 03:00:00+1100", "10-04 03:10:00+1100", "10-04 03:20:00+1100"]
    twice = Cron("*/30 1 * * *", "Australia/Lord_Howe")
    assert _local(twice, "2026-04-04T13:45", 3) == [
        "04-05 01:00:00+1100",
        "04-05 01:30:00+1100",
        "04-05 01:30:00+1030",
    ]


def test_a_rhythm_at_the_very_moment_of_a_change_is_not_lost() -> None:
    assert _local(Cron("0 */1 * * *", "Europe/London"), "2026-03-29T00:30", 2) == [
        "03-29 02:00:00+0100",
        "03-29 03:00:00+0100",
    ]


# --- zones that changed their rules ---------------------------------------------------------------------


def test_a_zone_that_changed_its_rules_is_followed() -> None:
    # Moscow stayed on summer time in 2011 (+4) and went back for good in 2014 (+3).
    morning = cron("0 3 * * *", tz="Europe/Moscow")
    assert _local(morning, "2014-10-25T12:00", 2) == ["10-26 03:00:00+0300", "10-27 03:00:00+0300"]
    assert _local(morning, "2014-10-24T12:00", 1) == ["10-25 03:00:00+0400"]
    # Mexico gave up summer time in 2022: nothing is skipped or repeated in 2023.
    night = cron("30 2 * * *", tz="America/Mexico_City")
    assert {tick[-5:] for tick in _local(night, "2023-01-01T12:00", 365)} == {"-0600"}


# --- intervals ---------------------------------------------------------------------------------------------


def test_an_interval_is_counted_from_the_epoch_so_all_processes_mean_the_same_instants() -> None:
    five = every(minutes=5)
    assert five.after(_utc("2026-01-01T00:02:03.5")) == _utc("2026-01-01T00:05")
    assert five.after(_utc("2026-01-01T00:05")) == _utc("2026-01-01T00:10")
    assert every(days=1).after(_utc("2026-03-08T12:00")) == _utc("2026-03-09T00:00")


# --- text and refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "when",
    [every(minutes=5), every(days=366), cron("@daily"), cron("*/7 3-5 1,15 * mon#2", tz="Australia/Lord_Howe")],
)
def test_a_rule_reads_back_from_its_text(when: When) -> None:
    assert read(when.spec).spec == when.spec


@pytest.mark.parametrize("text", ["every 5m", "cron @daily", "cron 0 3 * * *", "cron @weekly Europe/Moscow"])
def test_what_an_operator_types_is_read(text: str) -> None:
    assert read(text).after(_utc("2026-01-01")) is not None


@pytest.mark.parametrize(
    "text", ["", "every", "every 5", "every 0s", "every 5w", "cron", "cron 0 3 * *", "cron 0 3 * * * UTC UTC", "daily"]
)
def test_what_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(Misdeclared):
        read(text)


@pytest.mark.parametrize("expression", ["61 * * * *", "0 0 30 2 *", "0 0 31 2,4 *", "* * * * * *", "@reboot", "", "a"])
def test_a_bad_expression_is_refused_with_the_place(expression: str) -> None:
    with pytest.raises(Misdeclared, match=r"test_timetable\.py:"):
        cron(expression)


@pytest.mark.parametrize("zone", ["Europe/Moskau", "Europe", "../etc/passwd", "", "localtime", "UTC\0"])
def test_a_bad_zone_is_refused_with_the_place(zone: str) -> None:
    with pytest.raises(Misdeclared, match=r"test_timetable\.py:"):
        cron("0 3 * * *", tz=zone)


def test_a_misspelt_zone_is_answered_with_the_nearest() -> None:
    with pytest.raises(Misdeclared, match="nearest=Europe/Moscow"):
        cron("0 3 * * *", tz="Europe/Moscov")


@pytest.mark.parametrize("period", [{}, {"seconds": 0.5}, {"days": 367}, {"minutes": -5}, {"days": 10**10}])
def test_a_bad_period_is_refused_with_the_place(period: dict[str, float]) -> None:
    with pytest.raises(Misdeclared, match=r"test_timetable\.py:"):
        every(**period)


# --- listing -----------------------------------------------------------------------------------------------


def _marks(when: When, start: str, count: int) -> list[str]:
    return [f"{one.local:%d %H:%M} {one.mark.partition(':')[0]}".strip() for one in coming(when, _utc(start), count)]


def test_a_listing_marks_gaps_and_folds() -> None:
    assert _marks(Cron("30 2 * * *", "US/Pacific"), "2026-03-07T12:00", 2) == ["08 03:00 gap", "09 02:30"]
    assert _marks(Cron("30 1 * * *", "US/Pacific"), "2026-10-31T12:00", 2)[0] == "01 01:30 fold"
    assert _marks(Cron("0 * * * *", "US/Pacific"), "2026-11-01T07:30", 3)[:2] == ["01 01:00 fold", "01 01:00 fold"]
    skipped = next(coming(Cron("0 * * * *", "US/Pacific"), _utc("2026-03-08T09:30"), 1))
    assert skipped.mark == "the clocks go forward by 1:00:00 before it"
    assert _marks(every(hours=1), "2026-03-08T08:30", 2) == ["08 09:00", "08 10:00"]


def test_an_interval_knows_nothing_of_zones() -> None:
    assert Every(timedelta(hours=1)).spec == "every 3600s"
