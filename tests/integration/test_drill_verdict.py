"""The judge of the drills sees what is lost, doubled, blamed and left, in rows that a test has written."""

from collections.abc import Iterator
from typing import LiteralString

import psycopg
import pytest

from workers.drills import tables
from workers.drills.sight import Sight
from workers.drills.verdict import Verdict, judge, left_in_database

RUN = "a-run"


@pytest.fixture
def sight(database_url: str) -> Iterator[Sight]:
    """Give a look at a run of three accepted jobs: 1 and 2 take one attempt, 3 takes two; 4 nobody has accepted."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(tables.CREATE)
    sight = Sight(database_url, RUN)
    write(
        sight,
        "INSERT INTO drill.jobs (number, job_id, run, actor, duration_ms, attempts, accepted_at) VALUES"
        " (1, 'one', 'a-run', 'work', 100, 1, now()), (2, 'two', 'a-run', 'work', 100, 1, now()),"
        " (3, 'three', 'a-run', 'second_try', 100, 2, now()), (4, 'four', 'a-run', 'work', 100, 1, NULL),"
        " (9, 'other', 'another', 'work', 100, 1, now())",
    )
    yield sight
    sight.close()


def write(sight: Sight, statement: LiteralString, **values: object) -> None:
    sight.rows(statement + " RETURNING 1", **values)


def take_effect(sight: Sight, number: int, attempt: int = 1) -> None:
    write(
        sight,
        "INSERT INTO drill.effects (number, run, attempt, process) VALUES (%(number)s, %(run)s, %(attempt)s, 7)",
        number=number,
        attempt=attempt,
    )


def die(sight: Sight, job_id: str) -> None:
    write(
        sight,
        "INSERT INTO smena.dead_letters (job_id, attempt, queue, reason, died_at, body, properties)"
        " VALUES (%(job_id)s, 1, 'drill', 'crashed', now(), '', '{}')",
        job_id=job_id,
    )


def a_good_run(sight: Sight) -> None:
    take_effect(sight, 1)
    take_effect(sight, 2)
    take_effect(sight, 3, attempt=2)


def test_a_run_in_which_every_accepted_job_took_effect_once_holds(sight: Sight) -> None:
    a_good_run(sight)
    assert judge(sight) == Verdict(accepted=3, effects=3, dead=0, lost=0, doubled=0, innocent_attempts=0, unpunished=0)
    assert judge(sight).holds


def test_an_accepted_job_without_effect_or_letter_is_lost(sight: Sight) -> None:
    take_effect(sight, 1)
    assert judge(sight).lost == 2
    assert judge(sight).faults() == {"lost"}


def test_an_effect_of_a_job_that_nobody_accepted_is_no_fault(sight: Sight) -> None:
    a_good_run(sight)
    take_effect(sight, 4)
    assert judge(sight).holds


def test_a_second_effect_and_an_effect_beside_a_letter_are_doubled(sight: Sight) -> None:
    a_good_run(sight)
    take_effect(sight, 1)
    assert judge(sight).doubled == 1
    die(sight, "two")
    assert judge(sight).doubled == 2


def test_an_attempt_more_than_a_job_takes_by_itself_is_blamed_on_an_innocent(sight: Sight) -> None:
    take_effect(sight, 1, attempt=3)
    take_effect(sight, 2)
    take_effect(sight, 3, attempt=2)
    assert judge(sight).innocent_attempts == 2
    assert judge(sight).faults() == {"blamed"}


def test_a_letter_of_an_innocent_job_is_blame(sight: Sight) -> None:
    take_effect(sight, 1)
    take_effect(sight, 3, attempt=2)
    die(sight, "two")
    assert judge(sight).faults() == {"blamed"}


def test_a_guilty_job_must_be_a_letter(sight: Sight) -> None:
    a_good_run(sight)
    write(sight, "UPDATE drill.jobs SET guilty = true, accepted_at = now() WHERE number = 4")
    assert judge(sight).faults() == {"lost", "unpunished"}
    die(sight, "four")
    assert judge(sight).holds


def test_a_row_that_waits_in_the_outbox_is_left_over(sight: Sight) -> None:
    assert left_in_database(sight, sessions=True) == 0
    write(
        sight,
        "INSERT INTO smena.outbox (id, actor, queue, body, properties) VALUES ('one', 'drill.work', 'drill', '', '{}')",
    )
    assert left_in_database(sight, sessions=True) == 1


def test_a_job_runs_as_long_as_its_transaction_is_open(sight: Sight, database_url: str) -> None:
    with psycopg.connect(database_url) as job:
        job.execute("SELECT pg_try_advisory_xact_lock_shared(77, 1)")
        assert sight.running() == {1: 77}
        assert sight.running(78) == {}
        assert sight.are_back([1], dead=[78])
        assert not sight.are_back([1], dead=[77])
    assert sight.running() == {}
    take_effect(sight, 1)
    assert sight.are_back([1], dead=[77])
