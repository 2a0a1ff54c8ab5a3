"""Schedules against a minute-by-minute count, and the laws of misfire and overlap (P43)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise, takewhile

from cronsim import CronSim
from hypothesis import example, given, settings
from hypothesis import strategies as st

from smena.errors import Misdeclared
from smena.timetable import Cron, Every, Misfire, When
from smena.timetable.misfire import Plan, plan
from smena.timetable.overlap import QUEUED, fate
from smena.timetable.when import between

ZONES = ("US/Pacific", "Europe/London", "Australia/Lord_Howe", "Europe/Moscow", "Africa/Casablanca", "Pacific/Apia")
MINUTE = timedelta(minutes=1)

# Near the clock changes of those zones, and two changes of rules: Moscow 2014, Samoa 2011.
CHANGES = (
    "2026-03-08T10:00",
    "2026-11-01T09:00",
    "2026-03-29T01:00",
    "2026-10-25T01:00",
    "2026-04-04T15:00",
    "2026-10-03T15:30",
    "2014-10-25T22:00",
    "2011-12-30T10:00",
    "2026-02-15T02:00",
    "2026-03-22T02:00",
)
starts = st.builds(
    lambda change, minutes: datetime.fromisoformat(change).replace(tzinfo=UTC) + timedelta(minutes=minutes),
    st.sampled_from(CHANGES),
    st.integers(-40 * 60, 4 * 60),
)
minutes = st.sampled_from(["*", "*/7", "0", "30", "15,45", "0-10", "59"])
hours = st.sampled_from(["*", "*/2", "0", "1", "2", "3", "1-3", "23"])
expressions = st.builds(lambda minute, hour: f"{minute} {hour} * * *", minutes, hours)


def _wall(when: Cron, instant: datetime) -> datetime:
    return instant.astimezone(when.zone).replace(tzinfo=None)


def _counted(when: Cron, start: datetime, minutes: int) -> list[datetime]:
    """Return the ticks by looking at the clocks every minute, as the docstring of `Cron` says."""
    looks = [start + past * MINUTE for past in range(-25 * 60, minutes + 1)]
    walls = [_wall(when, look) for look in looks]
    named = _named(when, min(walls), max(walls))
    ticks: list[datetime] = []
    seen = walls[0]  # the latest that the clocks have shown
    for look, wall in zip(looks[1:], walls[1:], strict=True):
        if when.is_time_of_day:
            passed = any(wall - back * MINUTE in named for back in range(max(0, (wall - seen) // MINUTE)))
            seen = max(seen, wall)
        else:
            passed = wall in named
        if passed and look > start:
            ticks.append(look)
    return ticks


def _named(when: Cron, first: datetime, last: datetime) -> set[datetime]:
    walls = CronSim(when.expression, first - timedelta(seconds=1))
    return set(takewhile(lambda wall: wall <= last, walls))


@settings(max_examples=60)
@given(expressions, st.sampled_from(ZONES), starts)
def test_ticks_are_those_that_a_look_at_the_clocks_every_minute_finds(
    expression: str, zone: str, start: datetime
) -> None:
    when = Cron(expression, zone)
    assert list(between(when, start, start + timedelta(hours=12))) == _counted(when, start, 12 * 60)


@given(expressions, st.sampled_from(ZONES), starts, st.floats(0, 60))
def test_the_next_tick_is_later_and_no_tick_lies_before_it(
    expression: str, zone: str, start: datetime, more_s: float
) -> None:
    when, start = Cron(expression, zone), start + timedelta(seconds=more_s)
    following = when.after(start)
    assert following is not None
    assert following > start
    assert when.after(following - timedelta(microseconds=1)) == following


@given(st.text(max_size=30) | st.text("0123456789*/,-#LW@ MONJAN", max_size=30))
def test_any_text_is_a_schedule_or_refused(text: str) -> None:
    try:
        when = Cron(text)
    except Misdeclared:
        return
    assert when.after(datetime(2026, 1, 1, tzinfo=UTC)) is not None


# --- misfire -------------------------------------------------------------------------------------------------

rules = st.one_of(
    st.integers(1, 7200).map(lambda seconds: Every(timedelta(seconds=seconds))),
    st.builds(Cron, expressions, st.sampled_from(ZONES)),
)
policies = st.sampled_from(["skip", "one", "all"])
spans_s = st.integers(0, 4 * 3600)
graces = st.integers(0, 120).map(lambda seconds: timedelta(seconds=seconds))


@given(rules, starts, spans_s, graces, policies, st.integers(1, 50))
def test_every_tick_that_is_due_fires_or_is_passed_over_and_none_twice(
    when: When, since: datetime, span_s: int, grace: timedelta, policy: Misfire, cap: int
) -> None:
    now = since + timedelta(seconds=span_s)
    due = list(between(when, since, now))
    planned = plan(when, since, now, grace, policy, cap)
    fired = [firing.at for firing in planned.fire]
    passed_over = [at for at in due if at not in set(fired)]
    assert fired == sorted(set(fired))
    assert set(fired) <= set(due)
    assert _span_of(planned) == ((passed_over[0], passed_over[-1]) if passed_over else None)
    assert planned.skipped is None or planned.skipped.count == min(len(passed_over), 1000)


@given(rules, starts, spans_s, graces, policies, st.integers(1, 50))
@example(Every(MINUTE), datetime(2026, 1, 1, tzinfo=UTC), 3600, MINUTE, "all", 1)
def test_policies_keep_what_they_say(
    when: When, since: datetime, span_s: int, grace: timedelta, policy: Misfire, cap: int
) -> None:
    now = since + timedelta(seconds=span_s)
    due = list(between(when, since, now))
    missed = [at for at in due if at <= now - grace]
    planned = plan(when, since, now, grace, policy, cap)
    caught_up = [firing.at for firing in planned.fire if firing.late]
    on_time = [firing.at for firing in planned.fire if not firing.late]
    assert on_time == [at for at in due if at > now - grace], "what is not missed fires under any policy"
    if policy == "skip":
        assert caught_up == []
    elif policy == "one":
        assert caught_up == ([] if on_time else missed[-1:])
    else:
        assert caught_up == missed[-cap:]


@given(rules, starts, st.lists(st.integers(0, 59), max_size=30), policies)
def test_rounds_that_come_within_the_grace_fire_every_tick_once(
    when: When, start: datetime, rests_s: list[int], policy: Misfire
) -> None:
    looks = [start]
    for rest_s in rests_s:
        looks.append(looks[-1] + timedelta(seconds=rest_s))
    plans = [plan(when, since, now, MINUTE, policy) for since, now in pairwise(looks)]
    fired = [firing.at for planned in plans for firing in planned.fire]
    assert fired == list(between(when, start, looks[-1]))
    assert all(planned.skipped is None for planned in plans)


def test_a_year_of_downtime_is_planned_in_bounded_time_and_rows() -> None:
    since = datetime(2025, 1, 1, tzinfo=UTC)
    planned = plan(Cron("* * * * *"), since, since + timedelta(days=365), MINUTE, "all", 100)
    assert planned.skipped is not None
    assert (len(planned.fire), planned.skipped.count) == (101, 1000)


# --- overlap ---------------------------------------------------------------------------------------------------


@given(st.booleans(), st.integers(0, 3 * QUEUED))
def test_overlap_holds_back_only_what_its_policy_says(is_busy: bool, waiting: int) -> None:
    assert fate("allow", is_busy=is_busy, waiting=waiting) == "fire"
    held = is_busy or waiting > 0
    assert fate("skip", is_busy=is_busy, waiting=waiting) == ("skip" if held else "fire")
    room = "wait" if waiting < QUEUED else "skip"
    assert fate("queue", is_busy=is_busy, waiting=waiting) == (room if held else "fire")


def _span_of(planned: Plan) -> tuple[datetime, datetime] | None:
    return None if planned.skipped is None else (planned.skipped.first, planned.skipped.last)
