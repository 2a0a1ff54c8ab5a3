"""Rows are written in the caller's own transaction, through whatever connection it has."""

import time
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
import sqlalchemy as sa
from pydantic import SecretStr
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from smena import outbox
from smena.errors import Misconfigured, TooLarge, Unsendable
from smena.job import Job
from smena.settings.groups import Database as DatabaseSettings
from smena.store.database import Database
from tests.fixtures.eventually import PATIENCE_S


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with closing(Database(DatabaseSettings(url=SecretStr(database_url)), "test")) as opened:
        yield opened


def job(number: int = 0) -> Job:
    return Job(actor="sales.record", queue="sales", args=(number,), timestamp_ms=1_700_000_000_000)


def ids(database: Database) -> list[str]:
    with database.transaction() as connection:
        return list(connection.scalars(sa.text("SELECT id FROM smena.outbox ORDER BY seq")))


def test_a_job_is_there_exactly_when_the_change_is(database: Database) -> None:
    kept, dropped = job(), job()
    with Session(database.engine) as session:
        outbox.add(session, dropped)
        session.rollback()
        outbox.add(session, kept)
        assert ids(database) == []
        session.commit()
    assert ids(database) == [kept.id]


def test_a_savepoint_that_is_rolled_back_takes_its_jobs_with_it(database: Database) -> None:
    kept, dropped = job(), job()
    with Session(database.engine) as session, session.begin():
        outbox.add(session, kept)
        savepoint = session.begin_nested()
        outbox.add(session, dropped)
        savepoint.rollback()
    assert ids(database) == [kept.id]


def test_every_kind_of_connection_is_taken(database: Database, database_url: str) -> None:
    jobs = [job(number) for number in range(4)]
    with database.engine.begin() as connection:
        outbox.add(connection, jobs[0])
    with psycopg.connect(database_url) as raw:
        outbox.add(raw, jobs[1])
        with raw.cursor() as cursor:
            outbox.add(cursor, jobs[2])
    with psycopg.connect(database_url, autocommit=True) as raw, raw.transaction():
        outbox.add(raw, jobs[3])
    assert ids(database) == [one.id for one in jobs]


async def test_every_kind_of_async_connection_is_taken(database: Database, database_url: str) -> None:
    jobs = [job(number) for number in range(3)]
    async with database.asession() as session, session.begin():
        await outbox.aadd(session, jobs[0])
    engine = create_async_engine(database_url.replace("postgresql://", "postgresql+psycopg://"))
    async with engine.begin() as connection:
        await outbox.aadd(connection, jobs[1])
    await engine.dispose()
    async with await psycopg.AsyncConnection.connect(database_url) as raw:
        await outbox.aadd(raw, jobs[2])
    await database.aclose()
    assert ids(database) == [one.id for one in jobs]


def test_many_jobs_are_one_statement_in_their_order(database: Database) -> None:
    jobs = [job(number) for number in range(1000)]
    statements: list[str] = []
    sa.event.listen(database.engine, "before_cursor_execute", lambda *seen: statements.append(seen[2]))
    with database.transaction() as connection:
        outbox.add(connection, *jobs)
    assert len(statements) == 1
    assert ids(database) == [one.id for one in jobs]


def test_a_connection_that_commits_every_statement_is_refused(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as raw, pytest.raises(Misconfigured, match="open transaction"):
        outbox.add(raw, job())


def test_an_async_connection_is_refused_by_its_name(database: Database) -> None:
    with pytest.raises(TypeError, match="AsyncSession"):
        outbox.add(database.asession(), job())  # type: ignore[arg-type]


def bad_jobs() -> dict[str, Job]:
    return {
        "NUL in an argument": job().replace(args=("a\0b",)),
        "lone surrogate": job().replace(kwargs={"name": "\ud800"}),
        "not a number": job().replace(args=(float("nan"),)),
        "NUL in the id": job().replace(id="a\0b"),
        "surrogate in a header": job().replace(request_id="\ud800"),
        "a queue name with a wildcard": job().replace(queue="sales.*"),
        "a body over 8 MiB": job().replace(args=("x" * (8 * 1024 * 1024 + 1),)),
    }


@pytest.mark.parametrize("name", bad_jobs())
def test_what_cannot_be_sent_is_refused_and_nothing_is_written(name: str, database: Database) -> None:
    with pytest.raises(Unsendable), database.transaction() as connection:
        outbox.add(connection, job(), bad_jobs()[name])
    assert ids(database) == []


def test_a_body_that_is_too_large_says_so(database: Database) -> None:
    with pytest.raises(TooLarge), database.transaction() as connection:
        outbox.add(connection, bad_jobs()["a body over 8 MiB"])


@pytest.mark.parametrize("delay_s", [-1.0, float("nan"), float("inf")])
def test_a_delay_that_is_no_time_is_refused(delay_s: float, database: Database) -> None:
    with pytest.raises(Unsendable), database.transaction() as connection:
        outbox.add(connection, job(), delay_s=delay_s)


def test_a_delayed_job_is_due_by_the_clock_of_the_database(database: Database) -> None:
    with database.transaction() as connection:
        outbox.add(connection, job(), delay_s=3600, ordering_key="k")
        left = connection.scalar(sa.text("SELECT extract(epoch FROM due_at - clock_timestamp()) FROM smena.outbox"))
        key = connection.scalar(sa.text("SELECT ordering_key FROM smena.outbox"))
    assert 3500 < float(left) <= 3600
    assert key == "k"


def test_writers_ring_only_while_a_relay_sleeps(database: Database) -> None:
    from smena.clock import SYSTEM
    from smena.outbox.doorbell import Doorbell, Rest

    bell = Doorbell(lambda: database.connect(autocommit=True), SYSTEM)
    with closing(bell), database.connect(autocommit=True) as ear:
        ear.execute("LISTEN smena_outbox")
        with database.transaction() as connection:
            outbox.add(connection, job())
            assert bell.lie_down() is Rest.LIGHT, "a writer is under way that will not ring"
        assert list(ear.notifies(timeout=0.1)) == []
        assert bell.lie_down() is Rest.LOOK_ONCE_MORE
        assert bell.lie_down() is Rest.SOUND
        with database.transaction() as connection:
            outbox.add(connection, job())
            outbox.add(connection, job())
        assert len(list(ear.notifies(timeout=PATIENCE_S, stop_after=1))) == 1
        began = time.monotonic()
        bell.wait(60)
        assert time.monotonic() - began < 30
        bell.rise()
        with database.transaction() as connection:
            outbox.add(connection, job())
        assert list(ear.notifies(timeout=0.1)) == []
