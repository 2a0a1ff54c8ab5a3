"""What an operator, or a clock outside, does to a schedule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import smena
from smena import schedules as public
from smena.book import Registry
from smena.errors import Misdeclared, TooLarge
from smena.records import schedules
from smena.records.ticks import Endings
from smena.schedules.by_hand import Hand, NoSuchSchedule
from smena.schedules.keeping import check_declared
from smena.schedules.turns import Turns
from smena.store.database import Database
from smena.timetable import every
from smena.timetable.when import between

from . import bench
from .bench import book_of, fired, history, jobs, late, rewind


def test_a_clock_outside_fires_nothing_of_a_schedule_that_rests(database: Database, turns: Turns, term: int) -> None:
    turns.declare(book_of(bench.HOUR), term)
    rewind(database, 3)
    hand = Hand(database)
    hand.pause("house.sweep")
    assert hand.tick_now("house.sweep", within_s=3600) is None
    assert jobs(database) == []


def test_a_clock_outside_fires_nothing_of_a_schedule_that_is_not_declared_any_more(
    database: Database, turns: Turns, term: int
) -> None:
    turns.declare(book_of(bench.HOUR), term)
    rewind(database, 3)
    with database.transaction() as connection:
        assert schedules.retire(connection, ["house"], []) == ["house.sweep"]
    assert Hand(database).tick_now("house.sweep", within_s=3600) is None
    assert jobs(database) == []


def test_a_clock_outside_and_the_scheduler_fire_a_tick_once(database: Database, turns: Turns, term: int) -> None:
    turns.declare(book_of(bench.HOUR, misfire="all", overlap="allow"), term)
    since, now = rewind(database, 3)
    hand = Hand(database)
    outside = hand.tick_now("house.sweep", within_s=3600)
    assert outside is not None
    assert outside.at == list(between(bench.HOUR, since, now))[-1]
    assert hand.tick_now("house.sweep", within_s=3600) is None
    turns.take("house.sweep", term)
    assert fired(database) == list(between(bench.HOUR, since, now))
    assert len(jobs(database)) == 3


def at_second(monkeypatch: pytest.MonkeyPatch, now: datetime) -> None:
    monkeypatch.setattr(schedules, "clock", lambda _connection: now)


@pytest.mark.parametrize(("period_s", "second", "at"), [(8, 3, 0), (8, 5, 8), (60, 45, 0), (60, 55, 60)])
def test_a_clock_outside_means_the_tick_that_is_nearest(
    database: Database, turns: Turns, term: int, monkeypatch: pytest.MonkeyPatch, period_s: int, second: int, at: int
) -> None:
    turns.declare(book_of(every(seconds=period_s), overlap="allow"), term)
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    at_second(monkeypatch, noon + timedelta(seconds=second))
    tick = Hand(database).tick_now("house.sweep", within_s=3600)
    assert tick is not None
    assert tick.at == noon + timedelta(seconds=at)


def test_a_tick_that_has_yet_to_come_is_not_passed_over(
    database: Database, turns: Turns, term: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns.declare(book_of(every(seconds=20)), term)
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    at_second(monkeypatch, noon)
    assert Hand(database).tick_now("house.sweep", within_s=3600) is not None  # its job runs from here on
    at_second(monkeypatch, noon + timedelta(seconds=15))
    assert Hand(database).tick_now("house.sweep", within_s=3600) is None
    assert [one.tick.at for one in history(database)] == [noon]


def test_a_pause_passes_over_what_comes_meanwhile(database: Database, turns: Turns, term: int) -> None:
    turns.declare(book_of(bench.HOUR, misfire="all"), term)
    hand = Hand(database)
    hand.pause("house.sweep")
    since, now = rewind(database, 3)
    assert (turns.due(), turns.take("house.sweep", term)) == ([], [])
    hand.resume("house.sweep")
    assert turns.take("house.sweep", term) == []
    [span] = history(database)
    assert (span.tick.why, span.tick.count) == ("paused", len(list(between(bench.HOUR, since, now))))


def test_what_waits_when_a_schedule_is_paused_goes_on_when_it_is_resumed(
    database: Database, turns: Turns, term: int
) -> None:
    turns.declare(book_of(bench.HOUR, overlap="queue"), term)
    assert late(database, turns, term) == ["fired caught_up"]
    assert late(database, turns, term) == ["waiting busy"]
    hand = Hand(database)
    hand.pause("house.sweep")
    Endings(database).done(jobs(database))
    assert turns.due() == []
    assert turns.take("house.sweep", term) == []
    hand.resume("house.sweep")
    assert turns.due() == ["house.sweep"]
    assert [tick.why for tick in turns.take("house.sweep", term)] == ["after_wait"]


def test_run_fires_at_once_beside_the_schedule(database: Database, turns: Turns, term: int) -> None:
    turns.declare(book_of(bench.HOUR), term)
    Hand(database).run("house.sweep")
    assert [one.tick.why for one in history(database)] == ["by_hand"]
    with pytest.raises(NoSuchSchedule):
        Hand(database).run("house.swept")


def test_a_schedule_is_added_changed_and_removed_at_run_time(database: Database, turns: Turns, term: int) -> None:
    report = smena.by_name("reports.customer", queue="reports")
    with database.session() as session, session.begin():
        public.add(session, "report.acme", report, bench.HOUR, args=("acme",))
    rewind(database, 1, "report.acme")
    turns.declare(book_of(bench.HOUR), term)
    assert turns.due() == ["report.acme"]
    [tick] = turns.take("report.acme", term)
    assert tick.job_id in jobs(database)
    with database.transaction() as connection:
        assert public.remove(connection, "report.acme")
        assert not public.remove(connection, "report.acme")
        with pytest.raises(Misdeclared):
            public.add(connection, "house.sweep", report, bench.HOUR)


def test_a_schedule_whose_jobs_could_not_be_sent_is_refused(database: Database) -> None:
    remote = smena.by_name("a.b", queue="q")
    with database.transaction() as connection:
        with pytest.raises(TooLarge, match="schedule=big"):
            public.add(connection, "big", remote, bench.HOUR, args=("x" * 20_000_000,))
        assert schedules.lock(connection, "big") is None
    book = smena.Book("house")

    @book.actor(schedule=smena.Schedule(bench.HOUR, args=("x" * 20_000_000,)))
    def sweep(text: str) -> None: ...

    with pytest.raises(Misdeclared, match="too_large"):
        check_declared(Registry([book]))
