"""Work that a fleet does once in its life: whoever leads, however often it is deployed."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa
from click.testing import CliRunner
from pydantic import SecretStr

import smena
from smena import schedules
from smena.book import Registry
from smena.errors import TermLost
from smena.job import Tick
from smena.records import ticks
from smena.records.ticks import Endings
from smena.schedules.errands import Errands, StillRuns, errands_of
from smena.schedules.turns import Turns
from smena.settings.groups import Database as DatabaseSettings
from smena.store import terms
from smena.store.database import Database
from smena.store.tables import ticks as ticks_table
from smena.timetable.errand import AT
from tests.fixtures import hourly_book
from tests.fixtures.eventually import PATIENCE_S, eventually
from tests.fixtures.fix_shell import Shell
from workers.cli.once import once

LEASE = "leader:scheduler"
BOOKS = Registry([hourly_book.book])


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with closing(Database(DatabaseSettings(url=SecretStr(database_url)), "test")) as opened:
        yield opened


@pytest.fixture
def turns(database: Database) -> Turns:
    return Turns(database, LEASE, late_s=60, forgotten_s=3600)


def lead(database: Database) -> int:
    with database.transaction() as connection:
        connection.execute(sa.text("UPDATE smena.leases SET expires_at = now() - interval '1 s'"))
        taken = terms.take(connection, LEASE, "boot", 60)
    assert taken is not None
    return taken.number


def jobs(database: Database, actor: str) -> list[str]:
    with database.transaction() as connection:
        found = sa.text("SELECT id FROM smena.outbox WHERE actor = :actor ORDER BY seq")
        return list(connection.scalars(found, {"actor": actor}))


def test_an_errand_starts_once_whoever_leads_and_however_old_it_is(database: Database, turns: Turns) -> None:
    first = lead(database)
    turns.declare(BOOKS, first)
    second = lead(database)
    with pytest.raises(TermLost):
        turns.declare(BOOKS, first)
    Endings(database).done(jobs(database, "hourly.first_import"))
    with database.transaction() as connection:
        connection.execute(sa.update(ticks_table).values(decided_at=datetime(2000, 1, 1, tzinfo=UTC)))
        ticks.prune(connection, 1)
    turns.declare(BOOKS, second)
    assert len(jobs(database, "hourly.first_import")) == 1


def test_of_several_who_run_it_at_one_moment_one_does(database: Database, turns: Turns) -> None:
    turns.declare(BOOKS, lead(database))
    errand = errands_of(BOOKS)[0]
    Endings(database).done(jobs(database, "hourly.first_import"))

    def run(_: int) -> bool:
        try:
            Errands(database).run(errand)
        except StillRuns:
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(run, range(8))) == 1
    assert len(jobs(database, "hourly.first_import")) == 2


def somebody_waits(database: Database) -> bool:
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with database.transaction() as connection:
        return bool(connection.scalar(sa.text(waiting)))


def test_who_runs_it_waits_for_another_who_is_about_to(database: Database, turns: Turns) -> None:
    turns.declare(BOOKS, lead(database))
    errand = errands_of(BOOKS)[0]
    Endings(database).done(jobs(database, "hourly.first_import"))
    with ThreadPoolExecutor(1) as threads:
        with database.transaction() as connection:
            ticks.hold(connection, errand.name, AT)
            run = threads.submit(Errands(database).run, errand)
            eventually(lambda: run.done() or somebody_waits(database))
            assert not run.done()
        assert run.result(PATIENCE_S).schedule == errand.name


def test_only_its_name_runs_it_again_and_not_while_it_runs(database: Database, turns: Turns) -> None:
    turns.declare(BOOKS, lead(database))
    errand = errands_of(BOOKS)[0]
    with pytest.raises(StillRuns):
        Errands(database).run(errand)
    Endings(database).done(jobs(database, "hourly.first_import"))
    with database.transaction() as connection:  # what its effect has left
        key = "INSERT INTO smena.once_keys (actor, key, job_id, expires_at)"
        connection.execute(sa.text(f"{key} VALUES ('hourly.first_import', 'first-import', 'x', 'infinity')"))
    Errands(database).run(errand)
    assert len(jobs(database, "hourly.first_import")) == 2
    with database.transaction() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM smena.once_keys")) == 0


def test_with_a_session_it_takes_effect_once_and_without_one_piece_by_piece() -> None:
    assert hourly_book.first_import.once is not None
    assert hourly_book.first_import.once() == "first-import"
    assert hourly_book.in_pieces.once is None


def test_it_goes_on_from_the_last_piece_that_was_committed(database: Database) -> None:
    run = Tick("once:in-pieces", datetime(1970, 1, 1, tzinfo=UTC))
    job = smena.Job(actor="hourly.in_pieces", queue="hourly").of_tick(run)
    with database.session() as session:
        assert schedules.left_off(session, job) is None
        for piece in (1, 2):
            schedules.leave_off(session, job, {"piece": piece})
            session.commit()
        schedules.leave_off(session, job, {"piece": 3})
        session.rollback()
    with database.session() as session:
        assert schedules.left_off(session, job.next_attempt()) == {"piece": 2}
        with pytest.raises(smena.Refused):
            schedules.leave_off(session, smena.Job(actor="a.b", queue="q"), 1)


def test_an_operator_sees_and_runs_it(database: Database, database_url: str, shell: Shell) -> None:
    shell.set(database_url=database_url, books="tests.fixtures.hourly_book")
    assert "not started" in CliRunner().invoke(once, []).output
    assert "first-import runs as job" in CliRunner().invoke(once, ["first-import"]).output
    assert CliRunner().invoke(once, ["first-import"]).exit_code == 1
    Endings(database).done(jobs(database, "hourly.first_import"))
    assert "done" in CliRunner().invoke(once, []).output
    guessed = CliRunner().invoke(once, ["list"])
    assert (guessed.exit_code, "`smena once` alone lists those there are: key='list'" in guessed.output) == (1, True)
