"""A stale holder cannot write (guarantee 3)."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from smena.errors import DatabaseBusy, TermLost
from smena.store import terms
from smena.store.database import Database
from smena.store.faults import is_lost
from smena.store.terms import Term
from tests.fixtures.eventually import PATIENCE_S, eventually

from .conftest import Open

Effects = Callable[[], list[str]]


def take(database: Database, owner: str, lease_s: float = 60) -> Term | None:
    with database.transaction() as connection:
        return terms.take(connection, "part-1", owner, lease_s)


def run_out(database: Database) -> None:
    with database.transaction() as connection:
        connection.execute(sa.text("UPDATE smena.leases SET expires_at = now() - interval '1 s'"))


def taken(database: Database, owner: str, lease_s: float = 60) -> Term:
    term = take(database, owner, lease_s)
    assert term is not None
    return term


def test_a_lease_is_one_owners_until_it_runs_out_and_every_taking_is_a_new_term(database: Database) -> None:
    assert taken(database, "a").number == 1
    assert take(database, "b") is None
    run_out(database)
    assert taken(database, "b").number == 2


def test_two_that_take_at_once_do_not_both_get_it(database: Database) -> None:
    together = threading.Barrier(8)

    def attempt(number: int) -> Term | None:
        together.wait(PATIENCE_S)
        return take(database, f"owner-{number}")

    with ThreadPoolExecutor(8) as threads:
        got = [term for term in threads.map(attempt, range(8)) if term]
    assert [term.number for term in got] == [1]


def test_a_stale_holder_cannot_renew_or_commit(database: Database, effects: Effects) -> None:
    stale = taken(database, "a")
    run_out(database)
    taken(database, "b")
    with pytest.raises(TermLost), database.transaction() as connection:
        terms.renew(connection, stale, 60)
    with pytest.raises(TermLost):
        write_under(database, stale)
    assert effects() == []


def test_a_renewal_passes_the_fence_and_a_takeover_waits_for_its_commit(database: Database) -> None:
    term = taken(database, "a")
    with ThreadPoolExecutor(1) as other, Session(database.engine) as session:
        terms.fence(session, term)
        with database.transaction() as connection:
            connection.execute(sa.text("SET LOCAL lock_timeout = '2s'"))
            terms.renew(connection, term, 60)
        run_out(database)
        takeover = other.submit(taken, database, "b")
        eventually(lambda: waits_for_a_lock(database))
        assert not takeover.done()
        session.commit()
        assert takeover.result(PATIENCE_S).number == 2


def test_a_frozen_holder_does_not_hold_up_a_takeover(open_database: Open, database: Database) -> None:
    frozen = open_database(idle_in_transaction_s=1)
    term = taken(database, "a")
    with frozen.connect() as connection:
        connection.execute("SELECT 1 FROM smena.leases WHERE name = 'part-1' FOR KEY SHARE")
        run_out(database)
        assert taken(database, "b").number == term.number + 1
        with pytest.raises(psycopg.Error) as told:
            connection.execute("SELECT 1")
    assert is_lost(told.value)


def test_a_released_lease_is_free_at_once_and_only_its_holder_releases_it(database: Database) -> None:
    first = taken(database, "a")
    with database.transaction() as connection:
        terms.release(connection, first)
    second = taken(database, "b")
    with database.transaction() as connection:
        terms.release(connection, first)
    assert take(database, "c") is None
    assert second.number == 2


def write_under(database: Database, term: Term) -> None:
    with database.transaction() as connection:
        connection.execute(sa.text("INSERT INTO effects VALUES ('stale')"))
        terms.fence(connection, term)


def waits_for_a_lock(database: Database) -> bool:
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with database.transaction() as connection:
        return bool(connection.scalar(sa.text(waiting)))


def test_a_holder_that_is_frozen_before_its_commit_holds_a_takeover_up_for_moments_only(database: Database) -> None:
    term = taken(database, "a")
    with Session(database.engine) as session:
        terms.fence(session, term)
        run_out(database)
        began_s = time.monotonic()
        assert eventually(lambda: take(database, "b"), errors=(DatabaseBusy,)) == Term("part-1", "b", 2)
        assert time.monotonic() - began_s < 20  # the session may be idle in a transaction for 25 s
        with pytest.raises(sa.exc.DBAPIError) as refused:
            session.commit()
    assert is_lost(refused.value)
