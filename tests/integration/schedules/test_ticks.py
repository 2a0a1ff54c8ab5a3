"""A tick is one row and one job, whatever dies, is late or comes twice (P43)."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

import smena
from smena import schedules as public
from smena.book import Registry
from smena.clock import SYSTEM, Deadline
from smena.errors import TermLost
from smena.records import schedules, ticks
from smena.records.ticks import Endings, Tick
from smena.schedules.turns import Turns
from smena.store.database import Database
from smena.store.tables import ticks as ticks_table
from smena.telemetry import events
from smena.timetable import every
from smena.timetable.when import between
from tests.fixtures.eventually import PATIENCE_S, eventually
from tests.fixtures.fix_events import Listen
from workers.roles.timekeeper import Timekeeper

from . import bench
from .bench import Leads, book_of, fired, history, jobs, rewind


def test_a_new_schedule_begins_when_it_is_first_seen_and_owes_nothing(
    database: Database, turns: Turns, term: int
) -> None:
    turns.declare(book_of(bench.HOUR), term)
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
    turns.declare(book_of(bench.HOUR, misfire="all"), term)
    rewind(database, 5)
    turns.declare(book_of(every(minutes=30), misfire="all"), term)
    assert turns.take("house.sweep", term) == []


def test_a_schedule_that_its_book_no_longer_declares_rests_and_comes_back_where_it_was(
    database: Database, turns: Turns, term: int
) -> None:
    registry = book_of(bench.HOUR, misfire="all", overlap="allow")
    turns.declare(registry, term)
    assert turns.declare(Registry([smena.Book("house")]), term) == ["house.sweep"]
    since, now = rewind(database, 3)
    assert turns.due() == []
    turns.declare(registry, term)
    turns.take("house.sweep", term)
    assert fired(database) == list(between(bench.HOUR, since, now))


def test_a_scheduler_with_other_books_lets_a_schedule_be(database: Database, turns: Turns, term: int) -> None:
    turns.declare(book_of(bench.HOUR), term)
    assert turns.declare(Registry([smena.Book("cellar")]), term) == []


def test_a_tick_is_a_row_and_a_job_that_knows_its_time(database: Database, turns: Turns, term: int) -> None:
    turns.declare(book_of(smena.Schedule(bench.HOUR, misfire="one")), term)
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
    turns.declare(book_of(bench.HOUR, misfire=misfire, overlap="allow"), term)
    since, now = rewind(database, 3)
    due = list(between(bench.HOUR, since, now))
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
    turns.declare(book_of(bench.HOUR, misfire="all"), term)
    since, now = rewind(database, 3)
    successor = Leads(database).number
    with pytest.raises(TermLost):
        turns.take("house.sweep", term)
    assert (history(database), jobs(database)) == ([], [])
    turns.take("house.sweep", successor)
    assert fired(database) == list(between(bench.HOUR, since, now))[:1]


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
    turns.declare(book_of(bench.HOUR, misfire="one"), term)
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


def test_a_broken_schedule_stops_no_other_and_is_told_of(database: Database, turns: Turns, listen: Listen) -> None:
    leads = Leads(database)
    turns.declare(book_of(every(seconds=1), overlap="allow"), leads.number)
    with database.transaction() as connection:
        public.add(connection, "broken", smena.by_name("a.b", queue="q"), bench.HOUR)
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
    turns.declare(book_of(bench.HOUR), term)
    rewind(database, 2)
    keeper = Timekeeper(turns, Follows(), book_of(bench.HOUR), SYSTEM, poll_s=0.05)
    keeper.start()
    assert asked.wait(PATIENCE_S)
    keeper.stop(Deadline.within(10, SYSTEM))
    assert history(database) == []


def test_old_ticks_are_pruned_and_open_ones_stay(database: Database, turns: Turns, term: int) -> None:
    turns.declare(book_of(bench.HOUR, misfire="all", overlap="allow"), term)
    rewind(database, 3)
    turns.take("house.sweep", term)
    Endings(database).done(jobs(database)[:2])
    with database.transaction() as connection:
        connection.execute(sa.update(ticks_table).values(decided_at=datetime(2020, 1, 1, tzinfo=UTC)))
        assert ticks.prune(connection, 3600) == 2
    assert len(history(database)) == 1


def test_the_two_rows_are_one_transaction(database: Database, turns: Turns, term: int, database_url: str) -> None:
    """Nobody ever sees a tick without its job, or a job without its tick."""
    turns.declare(book_of(bench.HOUR), term)
    rewind(database, 1)
    turns.take("house.sweep", term)
    with psycopg.connect(database_url) as connection:
        written = connection.execute("SELECT xmin::text FROM smena.ticks UNION SELECT xmin::text FROM smena.outbox")
        assert len(written.fetchall()) == 1


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
