"""What a job left in its session is not the next one's (docs/adr/a-session-ends-with-its-job.md)."""

import itertools
from collections.abc import Callable
from typing import Any, Final

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from smena.errors import DatabaseLost
from smena.guarantees.once import Once, OnceKey
from smena.store.database import Database
from smena.store.faults import translated
from smena.store.held import async_driver_of, driver_of

from .conftest import Open

LEFT: Final = (
    "SET search_path TO nowhere",
    "SET ROLE pg_monitor",
    "SET statement_timeout TO 4321",
    "SET default_transaction_read_only TO on",
    "SELECT set_config('search_path', 'nowhere', false)",
    "SELECT enter_tenant()",
    "INSERT INTO watched VALUES (1)",
    "SELECT pg_advisory_lock(7)",
    "LISTEN news",
    "CREATE TEMPORARY TABLE left_over (v text)",
    "DECLARE left_over CURSOR WITH HOLD FOR SELECT 1",
)
"""What a job may leave behind: by a statement, by a function of the user's, by a trigger."""

ENTER: Final = """
CREATE FUNCTION enter_tenant() RETURNS void LANGUAGE plpgsql AS
    'BEGIN PERFORM set_config(''search_path'', ''nowhere'', false); END';
CREATE FUNCTION enter_by_trigger() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM set_config(''search_path'', ''nowhere'', false); RETURN NEW; END';
CREATE TABLE watched (v int);
CREATE TRIGGER enters BEFORE INSERT ON watched FOR EACH ROW EXECUTE FUNCTION enter_by_trigger();
"""

SEEN: Final = """
SELECT current_user, session_user, pg_backend_pid(),
    (SELECT array_agg(name || '=' || setting ORDER BY name) FROM pg_settings WHERE source = 'session'),
    (SELECT array_agg(name || '=' || setting ORDER BY name) FROM pg_settings WHERE name IN
        ('search_path', 'statement_timeout', 'lock_timeout', 'TimeZone', 'application_name', 'client_encoding')),
    (SELECT array_agg(c) FROM pg_listening_channels() AS c),
    (SELECT count(*) FROM pg_cursors WHERE is_holdable),
    (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'),
    to_regclass('pg_temp.left_over')
"""

PROCESS: Final = 2
"""Where `SEEN` says which connection it is."""

keys = (OnceKey("tenants.enter", str(number), "j") for number in itertools.count())


@pytest.fixture
def one(open_database: Open) -> Database:
    """Give a database with one connection, which all jobs share."""
    database = open_database(pool_size=1)
    with database.transaction() as connection:
        driver_of(connection).execute(ENTER)
    return database


def once(database: Database, body: Callable[[Session], Any]) -> Any:
    return Once(database).run(next(keys), body).result


def whole(database: Database, body: Callable[[Session], Any]) -> Any:
    with Once(database).whole() as session:
        return body(session)


def transaction(database: Database, body: Callable[[Session], Any]) -> Any:
    with Once(database).transaction() as session:
        return body(session)


def fails(database: Database, body: Callable[[Session], Any]) -> None:
    def commits_and_fails(session: Session) -> None:
        body(session)
        session.commit()
        raise LookupError

    with pytest.raises(LookupError):
        transaction(database, commits_and_fails)


def runs(statement: str) -> Callable[[Session], None]:
    def body(session: Session) -> None:
        session.execute(sa.text(statement))

    return body


def seen(session: Session) -> Any:
    return [str(value) for value in driver_of(session.connection()).execute(SEEN).fetchone() or ()]


@pytest.mark.parametrize("lent", [once, whole, transaction, fails])
def test_what_a_job_left_in_its_session_is_not_the_next_ones(one: Database, lent: Callable[..., Any]) -> None:
    before = once(one, seen)
    for statement in LEFT:
        lent(one, runs(statement))
        assert once(one, seen) == before, statement  # of the same process: the connection was not replaced


async def test_nor_is_it_the_next_coroutines(one: Database) -> None:
    async def sees(session: AsyncSession) -> list[str]:
        driver = await async_driver_of(await session.connection())
        return [str(value) for value in await (await driver.execute(SEEN)).fetchone() or ()]

    async def seen_next() -> list[str]:
        return (await lending.arun(next(keys), sees)).result

    async def leaves(session: AsyncSession) -> None:
        await session.execute(sa.text(statement))

    async def leaves_and_fails() -> None:
        async with lending.atransaction() as session:
            await leaves(session)
            await session.commit()
            raise LookupError

    lending = Once(one)
    try:
        before = await seen_next()
        for statement in LEFT:
            await lending.arun(next(keys), leaves)
            assert await seen_next() == before, statement
            async with lending.atransaction() as session:
                await leaves(session)
            assert await seen_next() == before, statement
            with pytest.raises(LookupError):
                await leaves_and_fails()
            assert await seen_next() == before, statement
    finally:
        await one.aclose()


def test_a_statement_on_the_drivers_own_cursor_leaves_nothing_either(one: Database) -> None:
    def leaves(session: Session) -> None:
        driver_of(session.connection()).execute("SET search_path TO nowhere")

    before = once(one, seen)
    once(one, leaves)
    assert once(one, seen) == before


def test_the_role_that_the_connection_was_opened_with_is_kept(open_database: Open, database_url: str) -> None:
    url = f"{database_url}{'&' if '?' in database_url else '?'}options=-c%20role%3Dpg_monitor"
    database = open_database(url=url, pool_size=1)
    role = sa.text("SELECT current_user")
    assert transaction(database, lambda session: session.scalar(role)) == "pg_monitor"
    transaction(database, runs("SET ROLE NONE"))
    assert transaction(database, lambda session: session.scalar(role)) == "pg_monitor"


def test_what_is_prepared_on_the_connection_stays(one: Database) -> None:
    def prepares(session: Session) -> Any:
        driver = driver_of(session.connection())
        driver.execute("SELECT 1", prepare=True)
        row = driver.execute("SELECT array_agg(name ORDER BY name) FROM pg_prepared_statements").fetchone()
        return row and row[0]

    first = once(one, prepares)
    assert "smena_once_take" in first
    assert once(one, prepares) == first


@pytest.mark.parametrize("statement", ["DEALLOCATE ALL", "PREPARE a AS SELECT 1", "SELECT 1; PREPARE a AS SELECT 1"])
def test_a_connection_whose_prepared_statements_a_job_changed_is_not_used_again(one: Database, statement: str) -> None:
    before = once(one, seen)
    once(one, runs(statement))
    after = once(one, seen)
    assert after[0] == before[0]
    assert after[PROCESS] != before[PROCESS]


async def test_nor_is_one_of_the_event_loop(one: Database) -> None:
    async def renames(session: AsyncSession) -> None:
        await session.execute(sa.text("DEALLOCATE ALL"))

    lending = Once(one)
    try:
        for _ in range(3):
            await lending.arun(next(keys), renames)
    finally:
        await one.aclose()


HIDDEN: Final = "DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$"
"""What no tag of an answer tells: it is `DO`."""


def prepared(session: Session) -> None:
    """Run a statement that the driver has prepared, as it does by itself with what comes often."""
    driver_of(session.connection()).execute("SELECT 'often'", prepare=True)


@pytest.mark.parametrize("lent", [once, whole])
def test_whoever_comes_after_a_hidden_deallocation_is_told_that_the_session_is_lost_and_gets_another(
    one: Database, lent: Callable[..., Any]
) -> None:
    lent(one, runs(HIDDEN))
    with pytest.raises(DatabaseLost):
        once(one, prepared)
    once(one, prepared)


def test_so_is_who_meets_it_in_a_statement_of_his_own(one: Database) -> None:
    transaction(one, prepared)
    transaction(one, runs(HIDDEN))

    def meets(session: Session) -> None:
        with translated():
            prepared(session)

    before = transaction(one, seen)[PROCESS]
    with pytest.raises(DatabaseLost):
        transaction(one, meets)
    assert transaction(one, seen)[PROCESS] != before
    transaction(one, prepared)


def test_a_name_of_the_jobs_own_that_is_not_there_is_its_own_fault(one: Database) -> None:
    process = once(one, seen)[PROCESS]
    with pytest.raises(sa.exc.ProgrammingError):
        once(one, runs("EXECUTE mine"))
    assert once(one, seen)[PROCESS] == process


async def test_on_the_event_loop_a_hidden_deallocation_costs_one_connection_too(one: Database) -> None:
    async def hides(session: AsyncSession) -> None:
        await session.execute(sa.text(HIDDEN))

    async def nothing(_session: AsyncSession) -> None: ...

    lending = Once(one)
    try:
        await lending.arun(next(keys), hides)
        with pytest.raises(DatabaseLost):
            await lending.arun(next(keys), nothing)
        await lending.arun(next(keys), nothing)
    finally:
        await one.aclose()


def test_what_a_job_asked_of_sqlalchemys_connection_is_not_the_next_ones(one: Database) -> None:
    tenant = {"schema_translate_map": {None: "tenant_a"}, "isolation_level": "SERIALIZABLE"}

    def asks(session: Session) -> Any:
        session.connection(execution_options=tenant)

    def asked(session: Session) -> Any:
        connection = session.connection()
        return connection.get_execution_options(), connection.scalar(sa.text("SHOW transaction_isolation"))

    transaction(one, asks)
    assert transaction(one, asked) == ({}, "read committed")


@pytest.mark.parametrize("lent", [once, whole, transaction])
def test_a_session_that_cannot_be_rinsed_is_closed_and_its_job_has_committed(
    one: Database, lent: Callable[..., Any], unrinsable: None
) -> None:
    def leaves(session: Session) -> Any:
        session.execute(sa.text("INSERT INTO numbered VALUES (1)"))
        session.execute(sa.text("SET search_path TO nowhere"))

    with one.transaction() as connection:
        connection.execute(sa.text("CREATE TABLE numbered (v int)"))
    lent(one, leaves)
    with one.transaction() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM numbered")) == 1


@pytest.fixture
def unrinsable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the server refuse the last statement of each rinse."""
    monkeypatch.setattr("smena.store.rinse._RINSE", b"RESET ALL;SELECT 1 / 0")
