"""Schedules: a tick is one row and one job, whatever dies, is late or comes twice (P43)."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from pydantic import SecretStr

import smena
from smena import schedules as public
from smena.book import Registry
from smena.clock import SYSTEM, Deadline
from smena.errors import Misdeclared, TermLost, TooLarge
from smena.records import schedules, ticks
from smena.records.ticks import Endings, KeptTick, Tick
from smena.schedules.by_hand import Hand, NoSuchSchedule
from smena.schedules.keeping import check_declared
from smena.schedules.turns import Turns
from smena.settings.groups import Database as DatabaseSettings
from smena.store import terms
from smena.store.database import Database
from smena.store.tables import schedules as schedules_table
from smena.store.tables import ticks as ticks_table
from smena.telemetry import events
from smena.timetable import When, cron, every
from smena.timetable.when import between
from tests.fixtures.eventually import PATIENCE_S, eventually
from tests.fixtures.fix_events import Listen
from workers.roles.timekeeper import Timekeeper

LEASE = "leader:scheduler"
HOUR = cron("30 * * * *")
"""Set for each test to half an hour from then, so that no tick is due while it looks."""


@pytest.fixture(autouse=True)
def _hour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "HOUR", cron(f"{(SYSTEM.now().minute + 30) % 60} * * * *"))


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with closing(Database(DatabaseSettings(url=SecretStr(database_url)), "test")) as opened:
        yield opened


@pytest.fixture
def turns(database: Database) -> Turns:
    return Turns(database, LEASE, late_s=60, forgotten_s=3600)


class Leads:
    """A lease that was taken from the table, as leadership is."""

    def __init__(self, database: Database) -> None:
        with database.transaction() as connection:
            connection.execute(sa.text("UPDATE smena.leases SET expires_at = now() - interval '1 s'"))
            taken = terms.take(connection, LEASE, "boot", 60)
        assert taken is not None
        self.number = taken.number

    def term(self) -> int | None:
        return self.number


@pytest.fixture
def term(database: Database) -> int:
    return Leads(database).number


def book_of(when: When | smena.Schedule, **policies: Any) -> Registry:
    book = smena.Book("house")

    @book.actor(queue="house", schedule=when, **policies)
    def sweep() -> None: ...

    return Registry([book])


def rewind(database: Database, hours: float, name: str = "house.sweep") -> tuple[datetime, datetime]:
    """Let so much time have passed since a schedule was last decided; return the time between which ticks are due."""
    with database.transaction() as connection:
        moved = {"since": schedules_table.c.since - timedelta(hours=hours), "next_at": sa.func.clock_timestamp()}
        connection.execute(sa.update(schedules_table).where(schedules_table.c.name == name).values(**moved))
        kept = schedules.lock(connection, name)
        assert kept is not None
        return kept.since, schedules.clock(connection)


def history(database: Database, name: str = "house.sweep") -> list[KeptTick]:
    with database.transaction() as connection:
        return ticks.history(connection, name, 1000)[::-1]


def fired(database: Database, name: str = "house.sweep") -> list[datetime]:
    return [one.tick.at for one in history(database, name) if one.tick.state == "fired"]


def jobs(database: Database) -> list[str]:
    with database.transaction() as connection:
        return list(connection.scalars(sa.text("SELECT id FROM smena.outbox ORDER BY seq")))


# --- beginning, changing, retiring ----------------------------------------------------------------------


def test_a_new_schedule_begins_when_it_is_first_seen_and_owes_nothing(
    database: Database, turns: Turns, term: int
) -> None:
    turns.declare(book_of(HOUR), term)
    assert turns.due() == []
    assert turns.take("house.sweep", term) == []
    assert history(database) == []


def test_the_next_run_survives_deploys(database: Database, turns: Turns, term: int) -> None:
    """A weekly job runs although its fleet is deployed every day."""
    registry = book_of(smena.cron("0 4 * * 1", tz="Europe/Moscow"), misfire="one")
    turns.declare(registry, term)
    since, now = rewind(database, 24 * 7)
    for _ in range(7):
        turns.declare(registry, term)
    assert len(turns.take("house.sweep", term)) == 1
    assert fired(database) == list(between(smena.cron("0 4 * * 1", tz="Europe/Moscow"), since, now))


def test_a_schedule_whose_rule_changed_begins_anew(database: Database, turns: Turns, term: int) -> None:
    turns.declare(book_of(HOUR, misfire="all"), term)
    rewind(database, 5)
    turns.declare(book_of(every(minutes=30), misfire="all"), term)
    assert turns.take("house.sweep", term) == []


def test_a_schedule_that_its_book_no_longer_declares_rests_and_comes_back_where_it_was(
    database: Database, turns: Turns, term: int
) -> None:
    registry = book_of(HOUR, misfire="all", overlap="allow")
    turns.declare(registry, term)
    assert turns.declare(Registry([smena.Book("house")]), term) == ["house.sweep"]
    since, now = rewind(database, 3)
    assert turns.due() == []
    turns.declare(registry, term)
    turns.take("house.sweep", term)
    assert fired(database) == list(between(HOUR, since, now))


def test_a_scheduler_with_other_books_lets_a_schedule_be(database: Database, turns: Turns, term: int) -> None:
    turns.declare(book_of(HOUR), term)
    assert turns.declare(Registry([smena.Book("cellar")]), term) == []


# --- firing -------------------------------------------------------------------------------------------------


def test_a_tick_is_a_row_and_a_job_that_knows_its_time(database: Database, turns: Turns, term: int) -> None:
    turns.declare(book_of(smena.Schedule(HOUR, misfire="one")), term)
    rewind(database, 1)
    [tick] = turns.take("house.sweep", term)
    with database.transaction() as connection:
        row = connection.execute(sa.text("SELECT id, actor, queue, properties FROM smena.outbox")).one()
    assert (row.id, row.actor, row.queue) == (tick.job_id, "house.sweep", "house")
    headers = row.properties["headers"]
    assert (headers["schedule"], headers["scheduled-at"]) == ("house.sweep", tick.at.isoformat())


@pytest.mark.parametrize(("misfire", "caught_up"), [("skip", 0), ("one", 1), ("all", 3)])
def test_p43_after_downtime_each_tick_is_decided_once_as_its_policy_says(
    database: Database, turns: Turns, term: int, misfire: Any, caught_up: int
) -> None:
    turns.declare(book_of(HOUR, misfire=misfire, overlap="allow"), term)
    since, now = rewind(database, 3)
    due = list(between(HOUR, since, now))
    turns.take("house.sweep", term)
    turns.take("house.sweep", term)
    late = [one for one in history(database) if one.tick.why in ("caught_up", "on_time")]
    assert len(due) == 3
    assert [one.tick.at for one in late] == due[3 - caught_up :]
    assert sum(one.tick.count for one in history(database)) == len(due)
    assert len(jobs(database)) == caught_up


def test_what_is_skipped_is_one_row_that_says_how_many(database: Database, turns: Turns, term: int) -> None:
    turns.declare(book_of(every(seconds=10), misfire="skip"), term)
    since, before = rewind(database, 2)
    turns.take("house.sweep", term)
    with database.transaction() as connection:
        after = schedules.clock(connection)
    [span] = [one.tick for one in history(database) if one.tick.why == "missed"]
    assert span.until is not None
    missed = list(between(every(seconds=10), since, span.until))
    assert (span.at, span.until, span.count) == (missed[0], missed[-1], len(missed))
    assert before - timedelta(seconds=70) < span.until <= after - timedelta(seconds=60)


def test_p37_a_leader_whose_term_is_over_decides_nothing(database: Database, turns: Turns, term: int) -> None:
    turns.declare(book_of(HOUR, misfire="all"), term)
    since, now = rewind(database, 3)
    successor = Leads(database).number
    with pytest.raises(TermLost):
        turns.take("house.sweep", term)
    assert (history(database), jobs(database)) == ([], [])
    turns.take("house.sweep", successor)
    assert fired(database) == list(between(HOUR, since, now))[:1]


def test_two_who_decide_at_once_fire_every_tick_once(database: Database, turns: Turns, term: int) -> None:
    when = every(seconds=1)
    turns.declare(book_of(smena.Schedule(when, misfire="all", misfire_cap=500, overlap="allow")), term)
    since, now = rewind(database, 0.05)
    together = threading.Barrier(4)

    def take() -> None:
        together.wait(PATIENCE_S)
        turns.take("house.sweep", term)

    threads = [threading.Thread(target=take, name=f"leader-{number}") for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert fired(database)[: len(due := list(between(when, since, now)))] == due
    assert len(jobs(database)) == len(fired(database))


def test_a_kill_between_the_two_rows_leaves_neither(
    database: Database, turns: Turns, term: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns.declare(book_of(HOUR, misfire="one"), term)
    rewind(database, 1)
    monkeypatch.setattr("smena.schedules.deciding.outbox.add", _end_the_session)
    with pytest.raises(smena.DatabaseLost):
        turns.take("house.sweep", term)
    monkeypatch.undo()
    assert (history(database), jobs(database)) == ([], [])
    turns.take("house.sweep", term)
    assert len(fired(database)) == len(jobs(database)) == 1


def _end_the_session(connection: sa.Connection, _job: smena.Job) -> None:
    connection.execute(sa.text("SELECT pg_terminate_backend(pg_backend_pid())"))


# --- overlap ---------------------------------------------------------------------------------------------------


def late(database: Database, turns: Turns, term: int) -> list[str]:
    """Let an hour pass and decide; return what became of the tick."""
    away = timedelta(hours=1 + len(history(database)))  # another each time, so that no two rows meet
    with database.transaction() as connection:
        connection.execute(sa.update(ticks_table).values(at=ticks_table.c.at - away))
    rewind(database, 1)
    return [f"{tick.state} {tick.why}" for tick in turns.take("house.sweep", term)]


def test_skip_passes_ticks_over_until_the_job_has_ended(database: Database, turns: Turns, term: int) -> None:
    turns.declare(book_of(HOUR, overlap="skip"), term)
    assert late(database, turns, term) == ["fired caught_up"]
    assert late(database, turns, term) == ["skipped busy"]
    Endings(database).done(jobs(database))
    assert late(database, turns, term) == ["fired caught_up"]
    assert [one.ending for one in history(database)] == ["done", None, None]


def test_queue_lets_ticks_wait_and_fires_them_one_after_the_other(database: Database, turns: Turns, term: int) -> None:
    turns.declare(book_of(HOUR, overlap="queue"), term)
    assert late(database, turns, term) == ["fired caught_up"]
    assert late(database, turns, term) == ["waiting busy"]
    assert late(database, turns, term) == ["waiting busy"]
    Endings(database).done(jobs(database))
    assert turns.due() == ["house.sweep"]
    assert [tick.why for tick in turns.take("house.sweep", term)] == ["after_wait"]
    assert turns.take("house.sweep", term) == []
    Endings(database).done(jobs(database))
    assert [tick.why for tick in turns.take("house.sweep", term)] == ["after_wait"]
    planned = fired(database)
    assert planned == sorted(planned)
    assert len(planned) == len(jobs(database)) == 3


def test_a_job_that_died_or_was_never_heard_of_again_holds_up_nothing(
    database: Database, turns: Turns, term: int
) -> None:
    turns.declare(book_of(HOUR, overlap="skip"), term)
    late(database, turns, term)
    [job] = jobs(database)
    with database.transaction() as connection:
        dead = "INSERT INTO smena.dead_letters (job_id, attempt, queue, reason, died_at, body, properties)"
        connection.execute(sa.text(f"{dead} VALUES (:job, 1, 'house', 'broken', now(), '', '{{}}')"), {"job": job})
    assert turns.close_dead(term) == 1
    assert late(database, turns, term) == ["fired caught_up"]
    with database.transaction() as connection:
        connection.execute(sa.update(ticks_table).values(fired_at=ticks_table.c.fired_at - timedelta(hours=2)))
    assert turns.close_dead(term) == 1
    assert [one.ending for one in history(database)] == ["dead", "forgotten"]


# --- by hand and at run time ---------------------------------------------------------------------------------------


def test_a_clock_outside_fires_nothing_of_a_schedule_that_rests(database: Database, turns: Turns, term: int) -> None:
    turns.declare(book_of(HOUR), term)
    rewind(database, 3)
    hand = Hand(database)
    hand.pause("house.sweep")
    assert hand.tick_now("house.sweep", within_s=3600) is None
    assert jobs(database) == []


def test_a_clock_outside_fires_nothing_of_a_schedule_that_is_not_declared_any_more(
    database: Database, turns: Turns, term: int
) -> None:
    turns.declare(book_of(HOUR), term)
    rewind(database, 3)
    with database.transaction() as connection:
        assert schedules.retire(connection, ["house"], []) == ["house.sweep"]
    assert Hand(database).tick_now("house.sweep", within_s=3600) is None
    assert jobs(database) == []


def test_a_clock_outside_and_the_scheduler_fire_a_tick_once(database: Database, turns: Turns, term: int) -> None:
    turns.declare(book_of(HOUR, misfire="all", overlap="allow"), term)
    since, now = rewind(database, 3)
    hand = Hand(database)
    outside = hand.tick_now("house.sweep", within_s=3600)
    assert outside is not None
    assert outside.at == list(between(HOUR, since, now))[-1]
    assert hand.tick_now("house.sweep", within_s=3600) is None
    turns.take("house.sweep", term)
    assert fired(database) == list(between(HOUR, since, now))
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
    turns.declare(book_of(HOUR, misfire="all"), term)
    hand = Hand(database)
    hand.pause("house.sweep")
    since, now = rewind(database, 3)
    assert (turns.due(), turns.take("house.sweep", term)) == ([], [])
    hand.resume("house.sweep")
    assert turns.take("house.sweep", term) == []
    [span] = history(database)
    assert (span.tick.why, span.tick.count) == ("paused", len(list(between(HOUR, since, now))))


def test_what_waits_when_a_schedule_is_paused_goes_on_when_it_is_resumed(
    database: Database, turns: Turns, term: int
) -> None:
    turns.declare(book_of(HOUR, overlap="queue"), term)
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


def test_what_waits_of_a_schedule_that_is_removed_says_so(database: Database, turns: Turns, term: int) -> None:
    turns.declare(book_of(HOUR, overlap="queue"), term)
    assert [late(database, turns, term) for _ in range(2)] == [["fired caught_up"], ["waiting busy"]]
    turns.declare(Registry([smena.Book("house")]), term)
    assert turns.due() == ["house.sweep"]
    assert turns.take("house.sweep", term) == []
    assert {one.tick.why for one in history(database)} == {"caught_up", "removed"}


def test_whether_a_tick_was_passed_over_is_found_without_a_look_at_all_that_are_kept(database: Database) -> None:
    fill = sa.text("""
        INSERT INTO smena.ticks (schedule, at, state, why)
        SELECT 'house.sweep', now() - n * interval '1 s', 'fired', 'on_time' FROM generate_series(1, 20000) AS n
    """)
    at = datetime.now(UTC)
    asked = sa.select(ticks.covering(Tick(schedule="house.sweep", at=at, state="fired", why="on_time")))
    with database.transaction() as connection:
        connection.execute(fill)
        connection.execute(sa.text("ANALYZE smena.ticks"))
        text = str(asked.compile(connection.engine, compile_kwargs={"literal_binds": True}))
        plan = "\n".join(connection.scalars(sa.text(f"EXPLAIN {text}")))
    assert "ticks_until_idx" in plan


def test_run_fires_at_once_beside_the_schedule(database: Database, turns: Turns, term: int) -> None:
    turns.declare(book_of(HOUR), term)
    Hand(database).run("house.sweep")
    assert [one.tick.why for one in history(database)] == ["by_hand"]
    with pytest.raises(NoSuchSchedule):
        Hand(database).run("house.swept")


def test_a_schedule_is_added_changed_and_removed_at_run_time(database: Database, turns: Turns, term: int) -> None:
    report = smena.by_name("reports.customer", queue="reports")
    with database.session() as session, session.begin():
        public.add(session, "report.acme", report, HOUR, args=("acme",))
    rewind(database, 1, "report.acme")
    turns.declare(book_of(HOUR), term)
    assert turns.due() == ["report.acme"]
    [tick] = turns.take("report.acme", term)
    assert tick.job_id in jobs(database)
    with database.transaction() as connection:
        assert public.remove(connection, "report.acme")
        assert not public.remove(connection, "report.acme")
        with pytest.raises(Misdeclared):
            public.add(connection, "house.sweep", report, HOUR)


def test_a_schedule_whose_jobs_could_not_be_sent_is_refused(database: Database) -> None:
    remote = smena.by_name("a.b", queue="q")
    with database.transaction() as connection:
        with pytest.raises(TooLarge, match="schedule=big"):
            public.add(connection, "big", remote, HOUR, args=("x" * 20_000_000,))
        assert schedules.lock(connection, "big") is None
    book = smena.Book("house")

    @book.actor(schedule=smena.Schedule(HOUR, args=("x" * 20_000_000,)))
    def sweep(text: str) -> None: ...

    with pytest.raises(Misdeclared, match="too_large"):
        check_declared(Registry([book]))


# --- the loop ------------------------------------------------------------------------------------------------------


def test_a_broken_schedule_stops_no_other_and_is_told_of(database: Database, turns: Turns, listen: Listen) -> None:
    leads = Leads(database)
    turns.declare(book_of(every(seconds=1), overlap="allow"), leads.number)
    with database.transaction() as connection:
        public.add(connection, "broken", smena.by_name("a.b", queue="q"), HOUR)
        broken = (
            "UPDATE smena.schedules SET spec = 'cron 0 3 * * * Atlantis/Deep', next_at = now() WHERE name = 'broken'"
        )
        connection.execute(sa.text(broken))
    failures = listen(events.SCHEDULE_FAILED)
    keeper = Timekeeper(turns, leads, book_of(every(seconds=1), overlap="allow"), SYSTEM, poll_s=0.2)
    keeper.start()
    try:
        eventually(lambda: len(fired(database)) >= 3)
    finally:
        keeper.stop(Deadline.within(10, SYSTEM))
    assert {one.fields["schedule"] for one in failures} == {"broken"}
    assert all(later - earlier == timedelta(seconds=1) for earlier, later in pairwise(fired(database)))


def test_while_another_leads_nothing_is_decided(database: Database, turns: Turns, term: int) -> None:
    class Follows:
        def term(self) -> int | None:
            asked.set()
            return None

    asked = threading.Event()
    turns.declare(book_of(HOUR), term)
    rewind(database, 2)
    keeper = Timekeeper(turns, Follows(), book_of(HOUR), SYSTEM, poll_s=0.05)
    keeper.start()
    assert asked.wait(PATIENCE_S)
    keeper.stop(Deadline.within(10, SYSTEM))
    assert history(database) == []


def test_old_ticks_are_pruned_and_open_ones_stay(database: Database, turns: Turns, term: int) -> None:
    turns.declare(book_of(HOUR, misfire="all", overlap="allow"), term)
    rewind(database, 3)
    turns.take("house.sweep", term)
    Endings(database).done(jobs(database)[:2])
    with database.transaction() as connection:
        connection.execute(sa.update(ticks_table).values(decided_at=datetime(2020, 1, 1, tzinfo=UTC)))
        assert ticks.prune(connection, 3600) == 2
    assert len(history(database)) == 1


def test_the_two_rows_are_one_transaction(database: Database, turns: Turns, term: int, database_url: str) -> None:
    """Nobody ever sees a tick without its job, or a job without its tick."""
    turns.declare(book_of(HOUR), term)
    rewind(database, 1)
    turns.take("house.sweep", term)
    with psycopg.connect(database_url) as connection:
        written = connection.execute("SELECT xmin::text FROM smena.ticks UNION SELECT xmin::text FROM smena.outbox")
        assert len(written.fetchall()) == 1
