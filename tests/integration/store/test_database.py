"""A connection that is lost, silent or refused is found out in time and replaced (P06)."""

from collections.abc import Callable

import psycopg
import pytest
import sqlalchemy as sa

from smena.errors import DatabaseBusy, DatabaseLost
from smena.guarantees.once import Once, OnceKey
from smena.store.database import Database
from smena.store.faults import is_lost, translate
from tests.fixtures.eventually import eventually
from tests.fixtures.fix_proxy import Proxied
from workers.drills.tcp_proxy import TcpProxy, Way

from .conftest import Open

BeforeProxy = Callable[..., tuple[TcpProxy, Database]]


def answer(database: Database) -> object:
    with database.transaction() as connection:
        return connection.scalar(sa.text("SELECT 1"))


def ask_after_the_cut(proxy: TcpProxy, connection: sa.Connection) -> None:
    proxy.cut()
    connection.execute(sa.text("SELECT 1"))


@pytest.fixture
def before_proxy(open_database: Open, database_url: str, proxied: Callable[[str], Proxied]) -> BeforeProxy:
    """Give a function that opens the database through a proxy and has asked it once."""

    def opened(**settings: float) -> tuple[TcpProxy, Database]:
        proxy, url = proxied(database_url)
        database = open_database(url=url, connect_timeout_s=2, **settings)
        assert answer(database) == 1
        return proxy, database

    return opened


def test_a_connection_that_was_cut_in_use_is_lost_and_the_next_is_new(before_proxy: BeforeProxy) -> None:
    proxy, database = before_proxy()
    with pytest.raises(DatabaseLost), database.transaction() as connection:
        ask_after_the_cut(proxy, connection)
    assert answer(database) == 1


def test_a_connection_that_was_cut_while_it_was_idle_is_replaced_before_it_is_lent(before_proxy: BeforeProxy) -> None:
    proxy, database = before_proxy()
    assert proxy.cut() == 1
    eventually(lambda: proxy.connections == 0)
    assert answer(database) == 1


def test_a_server_that_lives_and_says_nothing_is_given_up(before_proxy: BeforeProxy) -> None:
    proxy, database = before_proxy(statement_timeout_s=1.5)
    proxy.deafen()
    with pytest.raises(DatabaseLost):
        answer(database)
    with pytest.raises(DatabaseLost):
        answer(database)  # no new connection either: the wait for it is bounded too
    proxy.heal()
    assert answer(database) == 1


def test_a_commit_whose_answer_was_lost_is_found_by_the_next_run(before_proxy: BeforeProxy) -> None:
    proxy, database = before_proxy(statement_timeout_s=1.5)
    key = OnceKey("a.b", "k", "j")
    with pytest.raises(DatabaseLost):
        Once(database).run(key, lambda _: proxy.deafen(Way.TO_CLIENT))
    proxy.heal()
    assert Once(database).run(key, lambda _: pytest.fail("a second effect")).found


def test_a_server_that_is_not_there_is_lost(open_database: Open) -> None:
    with pytest.raises(DatabaseLost):
        answer(open_database(url="postgresql://nobody@127.0.0.1:1/none"))


def test_a_pool_without_a_free_connection_is_busy(open_database: Open) -> None:
    database = open_database(pool_size=1, connect_timeout_s=1)
    with database.transaction(), pytest.raises(DatabaseBusy):
        answer(database)
    assert answer(database) == 1


def test_how_long_a_connection_was_waited_for_is_shown(open_database: Open) -> None:
    database = open_database(pool_size=1, connect_timeout_s=1)
    assert database.waits() == {"": 0.0}
    with database.transaction(), pytest.raises(DatabaseBusy):
        answer(database)
    assert database.waits()[""] >= 1.0


@pytest.mark.parametrize("statement", ["SELECT pg_sleep(60)", "LOCK TABLE busy"])
def test_a_statement_that_was_given_up_is_busy(open_database: Open, statement: str) -> None:
    database, patient = open_database(statement_timeout_s=0.3, lock_timeout_s=0.2), open_database()
    with patient.transaction() as connection:
        connection.execute(sa.text("CREATE TABLE busy ()"))
    with patient.connect() as holder:
        holder.execute("LOCK TABLE busy")
        with pytest.raises(DatabaseBusy), database.transaction() as connection:
            connection.execute(sa.text(statement))


@pytest.mark.parametrize("statement", ["SELECT 1 / 0", "INSERT INTO smena.outbox DEFAULT VALUES", "SELECT x", "x"])
def test_what_a_jobs_author_did_wrong_is_not_translated(open_database: Open, statement: str) -> None:
    with open_database().connect() as connection, pytest.raises(psycopg.Error) as told:
        connection.execute(statement.encode())
    assert translate(told.value) is None
    assert not is_lost(told.value)


def test_every_session_carries_its_limits(open_database: Open) -> None:
    database = open_database(lock_timeout_s=1.5, idle_in_transaction_s=7, statement_timeout_s=11)
    with database.transaction() as connection:
        shown = {
            name: connection.scalar(sa.text(f"SHOW {name}"))
            for name in ("lock_timeout", "idle_in_transaction_session_timeout", "statement_timeout", "timezone")
        }
    assert list(shown.values()) == ["1500ms", "7s", "11s", "UTC"]


def test_a_connection_left_in_a_transaction_is_not_handed_on(open_database: Open) -> None:
    database = open_database()
    with database.lend() as connection:
        connection.execute(sa.text("CREATE TABLE left_open ()"))
    with database.lend() as connection:
        assert connection.scalar(sa.text("SELECT to_regclass('left_open')")) is None
