"""What becomes of a tick while the job before it runs, as the overlap policy says."""

from __future__ import annotations

from datetime import timedelta

import sqlalchemy as sa

import smena
from smena.book import Registry
from smena.records.ticks import Endings
from smena.schedules.by_hand import Hand
from smena.schedules.turns import Turns
from smena.store.database import Database
from smena.store.tables import ticks as ticks_table

from . import bench
from .bench import book_of, fired, history, jobs, late, rewind


def test_skip_passes_ticks_over_until_the_job_has_ended(database: Database, turns: Turns, term: int) -> None:
    turns.declare(book_of(bench.HOUR, overlap="skip"), term)
    assert late(database, turns, term) == ["fired caught_up"]
    assert late(database, turns, term) == ["skipped busy"]
    Endings(database).done(jobs(database))
    assert late(database, turns, term) == ["fired caught_up"]
    assert [one.ending for one in history(database)] == ["done", None, None]


def test_queue_lets_ticks_wait_and_fires_them_one_after_the_other(database: Database, turns: Turns, term: int) -> None:
    turns.declare(book_of(bench.HOUR, overlap="queue"), term)
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
    turns.declare(book_of(bench.HOUR, overlap="skip"), term)
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


def test_what_waits_of_a_schedule_that_its_book_does_not_declare_goes_on_when_it_does_again(
    database: Database, turns: Turns, term: int
) -> None:
    declared = book_of(bench.HOUR, overlap="queue")
    turns.declare(declared, term)
    assert [late(database, turns, term) for _ in range(2)] == [["fired caught_up"], ["waiting busy"]]
    turns.declare(Registry([smena.Book("house")]), term)
    assert (turns.due(), turns.take("house.sweep", term)) == ([], [])
    turns.declare(declared, term)
    Endings(database).done(jobs(database))
    assert [tick.why for tick in turns.take("house.sweep", term)] == ["after_wait"]


def test_what_waits_of_one_that_was_away_for_long_says_that_it_is_removed(
    database: Database, turns: Turns, term: int
) -> None:
    turns.declare(book_of(bench.HOUR, overlap="queue"), term)
    assert [late(database, turns, term) for _ in range(2)] == [["fired caught_up"], ["waiting busy"]]
    turns.declare(Registry([smena.Book("house")]), term)
    with database.transaction() as connection:
        connection.execute(sa.text("UPDATE smena.schedules SET removed_at = removed_at - interval '2 days'"))
    assert turns.due() == ["house.sweep"]
    assert turns.take("house.sweep", term) == []
    assert {one.tick.why for one in history(database)} == {"caught_up", "removed"}


def test_what_waits_of_a_schedule_that_is_removed_is_not_fired_by_another_of_its_name(
    database: Database, turns: Turns, term: int
) -> None:
    hand, hourly = Hand(database), smena.Schedule(bench.HOUR, misfire="all", overlap="queue")
    hand.add("sweep", smena.by_name("house.sweep", queue="house"), hourly)
    rewind(database, 3, "sweep")
    assert [tick.state for tick in turns.take("sweep", term)] == ["fired", "waiting", "waiting"]
    hand.remove("sweep")
    hand.add("sweep", smena.by_name("house.other", queue="house"), hourly)
    Endings(database).done(jobs(database))
    assert turns.take("sweep", term) == []
    assert "removed" in {one.tick.why for one in history(database, "sweep")}
