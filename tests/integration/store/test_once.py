"""A key and its effect commit together or not at all (guarantee 2)."""

import asyncio
import os
import select
import struct
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from smena.clock import SYSTEM
from smena.context import Context, running
from smena.errors import DatabaseLost, TimedOut
from smena.guarantees.once import GuardRefused, InvalidResult, KeyInUse, Once, OnceKey
from smena.job import Job
from smena.records import once_keys
from smena.settings.groups import Database as DatabaseSettings
from smena.store import migrations
from smena.store.database import Database
from smena.store.faults import translated
from smena.store.held import TransactionEnded, driver_of
from tests.fixtures.eventually import PATIENCE_S, eventually
from tests.fixtures.fix_database import url_of

from .conftest import Open

Effects = Callable[[], list[str]]

KEY = OnceKey("payments.charge", "order-1", "job-1")


def write(session: Session, value: str) -> None:
    session.execute(sa.text("INSERT INTO effects VALUES (:v)"), {"v": value})


def test_a_key_that_is_found_gives_the_result_that_was_kept_and_runs_nothing(
    database: Database, effects: Effects
) -> None:
    def charge(session: Session) -> dict[str, Any]:
        write(session, "charged")
        return {"charge": 7, "note": "\x00 и 'quoted'"}

    once = Once(database)
    first = once.run(KEY, charge)
    again = once.run(KEY, charge)
    assert (first.found, again.found) == (False, True)
    assert first.result == again.result == {"charge": 7, "note": "\x00 и 'quoted'"}
    assert effects() == ["charged"]


def test_twenty_threads_with_one_key_make_one_effect(database: Database, effects: Effects) -> None:
    once, together = Once(database), threading.Barrier(20)

    def charge(session: Session) -> int:
        write(session, "charged")
        return 5

    def attempt(number: int) -> tuple[bool, int]:
        together.wait(PATIENCE_S)
        ran = once.run(OnceKey("payments.charge", "order-1", f"job-{number}"), charge)
        return ran.found, ran.result

    with ThreadPoolExecutor(20) as threads:
        came = list(threads.map(attempt, range(20)))
    assert sorted(came) == [(False, 5)] + [(True, 5)] * 19
    assert effects() == ["charged"]


def test_commits_and_rollbacks_of_the_job_end_nothing(database: Database, effects: Effects) -> None:
    def charge(session: Session) -> None:
        write(session, "kept")
        session.commit()
        write(session, "taken back")
        session.rollback()
        write(session, "kept too")
        assert effects() == [], "nothing may be seen before the end"

    assert not Once(database).run(KEY, charge).found
    assert effects() == ["kept", "kept too"]
    assert Once(database).run(KEY, charge).found


def test_what_rolls_back_on_the_connection_leaves_its_prepared_statements(database: Database, effects: Effects) -> None:
    """psycopg prepares what comes often, and would let go of all that is prepared after a rollback."""
    once = Once(database)
    often = 10

    def with_savepoints(session: Session) -> int:
        for _ in range(often):
            write(session, "kept")
        with session.begin_nested() as inner:
            write(session, "gone")
            inner.rollback()
        return 5

    assert once.run(OnceKey("a", "first", "job-1"), with_savepoints).result == 5  # the last statement finds its like
    with suppress(ZeroDivisionError), database.transaction() as connection:
        for _ in range(often):
            connection.execute(sa.text("SELECT count(*) FROM effects"))
        1 / 0  # noqa: B018
    assert not once.run(OnceKey("a", "second", "job-2"), lambda session: write(session, "after")).found
    assert effects() == ["after", *["kept"] * often]


async def test_a_savepoint_on_the_event_loop_leaves_the_prepared_statements_too(database: Database) -> None:
    async def with_savepoints(session: AsyncSession) -> int:
        for _ in range(10):
            await session.execute(sa.text("INSERT INTO effects VALUES ('kept')"))
        inner = await session.begin_nested()
        await inner.rollback()
        return 5

    try:
        assert (await Once(database).arun(KEY, with_savepoints)).result == 5
    finally:
        await database.aclose()


def test_what_the_job_committed_is_gone_when_it_fails_later(database: Database, effects: Effects) -> None:
    def fails_late(session: Session) -> None:
        write(session, "half")
        session.commit()
        raise LookupError("late")

    once = Once(database)
    with pytest.raises(LookupError):
        once.run(KEY, fails_late)
    assert effects() == []
    assert not once.run(KEY, lambda session: write(session, "whole")).found
    assert effects() == ["whole"]


def test_a_rollback_by_the_job_does_not_take_the_key_away(database: Database, effects: Effects) -> None:
    def gives_up(session: Session) -> str:
        write(session, "no")
        session.rollback()
        return "nothing to do"

    once = Once(database)
    once.run(KEY, gives_up)
    assert once.run(KEY, gives_up).result == "nothing to do"
    assert effects() == []


def test_a_failed_statement_that_the_job_swallows_is_not_taken_for_success(
    database: Database, effects: Effects
) -> None:
    def swallows(session: Session) -> None:
        write(session, "before")
        try:
            session.execute(sa.text("SELECT 1 / 0"))
        except sa.exc.DataError:
            return

    once = Once(database)
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        once.run(KEY, swallows)
    assert effects() == []
    assert not once.run(KEY, lambda session: write(session, "mended")).found


def test_ending_the_transaction_by_sql_is_told(database: Database) -> None:
    def commits(session: Session) -> None:
        session.execute(sa.text("COMMIT"))

    with pytest.raises(TransactionEnded):
        Once(database).run(KEY, commits)


@pytest.mark.parametrize("statements", [["ROLLBACK AND CHAIN"], ["ROLLBACK", "BEGIN"], ["COMMIT", "BEGIN"]])
@pytest.mark.parametrize("then", ["end", "commit", "rollback"])
def test_a_transaction_that_the_job_ended_and_began_anew_is_not_taken_for_ours(
    database: Database, effects: Effects, statements: list[str], then: str
) -> None:
    def reopens(session: Session) -> None:
        for statement in statements:
            session.connection().exec_driver_sql(statement)
        write(session, "without its key")
        {"end": session.flush, "commit": session.commit, "rollback": session.rollback}[then]()

    once = Once(database)
    with pytest.raises(TransactionEnded):
        once.run(KEY, reopens)
    assert effects() == []
    assert once.run(OnceKey("a.b", "k", "j"), lambda session: write(session, "next")).result is None
    assert effects() == ["next"]


def test_a_transaction_that_was_ended_behind_the_connections_back_is_not_taken_for_committed(
    database: Database, effects: Effects
) -> None:
    def forks(session: Session) -> None:
        write(session, "lost")
        connection = driver_of(session.connection())
        socket = connection.pgconn.socket
        os.write(socket, b"Q" + struct.pack("!i", 13) + b"ROLLBACK\0")  # as a forked child's own libpq would
        answer = b""
        while not answer.endswith(b"Z\0\0\0\5I"):
            select.select([socket], [], [])
            answer += os.read(socket, 4096)

    once = Once(database)
    with pytest.raises(TransactionEnded):
        once.run(KEY, forks)
    assert not once.run(KEY, lambda session: write(session, "again")).found
    assert effects() == ["again"]


def test_a_job_beside_another_with_its_key_comes_back_later(open_database: Open, database: Database) -> None:
    impatient = Once(open_database(lock_timeout_s=0.2))
    entered, leave = threading.Event(), threading.Event()

    def slow(session: Session) -> None:
        write(session, "slow")
        entered.set()
        assert leave.wait(PATIENCE_S)

    with ThreadPoolExecutor(1) as other:
        first = other.submit(Once(database).run, KEY, slow)
        try:
            assert entered.wait(PATIENCE_S)
            with pytest.raises(KeyInUse):
                impatient.run(KEY, lambda session: write(session, "second"))
        finally:
            leave.set()
        assert not first.result().found
    assert impatient.run(KEY, lambda session: write(session, "third")).found


def test_a_connection_that_died_idle_is_replaced_before_anything_happened(database: Database, effects: Effects) -> None:
    once = Once(database)
    once.run(KEY, lambda session: write(session, "first"))
    hang_up_on(database)
    assert not once.run(OnceKey("a.b", "k", "j"), lambda session: write(session, "second")).found
    assert effects() == ["first", "second"]


def test_a_connection_that_dies_in_the_job_leaves_neither_key_nor_effect(database: Database, effects: Effects) -> None:
    def cut_off(session: Session) -> None:
        write(session, "lost")
        hang_up_on(database)

    once = Once(database)
    with pytest.raises(DatabaseLost):
        once.run(KEY, cut_off)
    assert effects() == []
    assert not once.run(KEY, lambda session: write(session, "again")).found


@pytest.mark.parametrize(
    ("away", "back"),
    [
        ("ALTER TABLE smena.once_keys RENAME TO away", "ALTER TABLE smena.away RENAME TO once_keys"),
        ("ALTER SCHEMA smena RENAME TO away", "ALTER SCHEMA away RENAME TO smena"),
    ],
)
def test_what_guards_the_effect_being_away_is_no_fault_of_the_job(
    database: Database, effects: Effects, away: str, back: str
) -> None:
    once = Once(database)
    once.run(KEY, lambda session: write(session, "before"))
    with database.transaction() as connection:
        connection.execute(sa.text(away))
    key = OnceKey("a.b", "k", "j")
    for _ in range(3):
        with pytest.raises(GuardRefused, match="does not exist"):
            once.run(key, lambda session: write(session, "never"))
    with pytest.raises(GuardRefused), once.whole() as session:
        write(session, "never")
    with database.transaction() as connection:
        connection.execute(sa.text(back))
    assert not once.run(key, lambda session: write(session, "after")).found
    assert effects() == ["after", "before"]


def test_the_connection_on_which_the_guards_statements_failed_is_not_used_again(open_database: Open) -> None:
    database = open_database(pool_size=1)
    once = Once(database)

    def process(session: Session) -> object:
        return session.scalar(sa.text("SELECT pg_backend_pid()"))

    before = once.run(KEY, process).result
    beside = open_database()
    with beside.transaction() as connection:
        connection.execute(sa.text("ALTER TABLE smena.once_keys RENAME TO away"))
    with pytest.raises(GuardRefused):
        once.run(OnceKey("a.b", "k", "j"), process)
    with beside.transaction() as connection:
        connection.execute(sa.text("ALTER TABLE smena.away RENAME TO once_keys"))
    assert once.run(OnceKey("a.b", "k", "j"), process).result != before


def test_a_key_that_the_databases_encoding_has_not_is_the_jobs_own_fault(database_url: str, unique: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {unique} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
        try:
            address = url_of(database_url, unique)
            migrations.upgrade(address)
            with closing(Database(DatabaseSettings(url=SecretStr(address)), "test")) as narrow:
                once = Once(narrow)
                with pytest.raises(psycopg.errors.UntranslatableCharacter):
                    once.run(OnceKey("a.b", "утка", "j"), lambda _session: None)
                assert not once.run(OnceKey("a.b", "duck", "j"), lambda _session: None).found
        finally:
            server.execute(f"DROP DATABASE {unique} WITH (FORCE)")


def test_the_connection_of_a_struck_job_is_not_used_again(database: Database) -> None:
    def pid(session: Session) -> object:
        return session.scalar(sa.text("SELECT pg_backend_pid()"))

    def struck(session: Session) -> None:
        seen.append(pid(session))
        raise TimedOut

    once, seen = Once(database), list[object]()
    with pytest.raises(TimedOut):
        once.run(KEY, struck)
    assert once.run(KEY, pid).result not in seen


def test_a_job_that_fails_keeps_its_connection_for_the_next(database: Database) -> None:
    def fails(session: Session) -> None:
        seen.append(session.scalar(sa.text("SELECT pg_backend_pid()")))
        raise LookupError

    once, seen = Once(database), list[object]()
    for number in range(3):
        with pytest.raises(LookupError):
            once.run(OnceKey("a.b", str(number), "j"), fails)
        with pytest.raises(LookupError), once.transaction() as session:
            fails(session)
    assert len(set(seen)) == 1


def test_a_restarted_server_spends_no_job_that_begins_after_it(database: Database, effects: Effects) -> None:
    once = Once(database)
    with once.transaction() as session, once.transaction() as beside:
        write(session, "a")
        write(beside, "b")
    hang_up_on(database)
    with once.transaction() as session, once.transaction() as beside:
        write(session, "c")
        write(beside, "d")
    assert effects() == ["a", "b", "c", "d"]


def test_a_result_that_is_not_json_fails_the_job_and_its_effect(database: Database, effects: Effects) -> None:
    def odd(session: Session) -> object:
        write(session, "odd")
        return object()

    with pytest.raises(InvalidResult):
        Once(database).run(KEY, odd)
    assert effects() == []


@pytest.mark.parametrize("key", ["nul \x00", "lone \ud800", "x" * 100_000, "'; DROP TABLE effects; --", "\\'"])
def test_any_text_can_be_a_key(database: Database, effects: Effects, key: str) -> None:
    once = Once(database)
    assert not once.run(OnceKey("a.b", key, "job \x00"), lambda session: write(session, "x")).found
    assert once.run(OnceKey("a.b", key, "job 2"), lambda session: write(session, "y")).found
    assert not once.run(OnceKey("a.b", key + "!", "job 3"), lambda session: write(session, "z")).found
    assert effects() == ["x", "z"]


def test_no_connection_is_kept_in_a_transaction(database: Database) -> None:
    once = Once(database)
    once.run(KEY, lambda session: write(session, "x"))
    once.run(KEY, lambda session: write(session, "x"))
    with pytest.raises(ZeroDivisionError):
        once.run(OnceKey("a.b", "2", "j"), lambda _: 1 // 0)
    with database.transaction() as connection:
        idle = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
        assert eventually(lambda: connection.scalar(sa.text(idle)) == 0)


def test_without_a_key_the_transaction_commits_at_the_end_or_not_at_all(database: Database, effects: Effects) -> None:
    once = Once(database)
    with once.transaction() as session:
        write(session, "kept")
    with pytest.raises(LookupError), once.transaction() as session:
        write_and_fail(session, "dropped")
    assert effects() == ["kept"]


def test_old_keys_are_pruned_in_small_batches(database: Database) -> None:
    brief = Once(database, keep_s=0)
    for number in range(5):
        brief.run(OnceKey("a.b", str(number), "j"), lambda _: None)
    Once(database).run(KEY, lambda _: None)
    with database.transaction() as connection:
        assert [once_keys.prune(connection, limit=3) for _ in range(3)] == [3, 2, 0]
    assert Once(database).run(KEY, lambda _: None).found


async def test_the_event_loop_has_the_same_guarantee(database: Database, effects: Effects) -> None:
    once = Once(database)

    async def charge(session: AsyncSession) -> str:
        await session.execute(sa.text("INSERT INTO effects VALUES ('kept')"))
        await session.commit()
        await session.execute(sa.text("INSERT INTO effects VALUES ('taken back')"))
        await session.rollback()
        return "done"

    async def fails(session: AsyncSession) -> None:
        await charge(session)
        raise LookupError

    try:
        with pytest.raises(LookupError):
            await once.arun(KEY, fails)
        ran = await asyncio.gather(*(once.arun(OnceKey(KEY.actor, KEY.key, str(n)), charge) for n in range(20)))
    finally:
        await database.aclose()
    assert sorted((one.found, one.result) for one in ran) == [(False, "done")] + [(True, "done")] * 19
    assert effects() == ["kept"]


async def test_on_the_event_loop_a_transaction_begun_anew_is_not_taken_for_ours(
    database: Database, effects: Effects
) -> None:
    async def reopens(session: AsyncSession) -> None:
        await (await session.connection()).exec_driver_sql("ROLLBACK AND CHAIN")
        await session.execute(sa.text("INSERT INTO effects VALUES ('without its key')"))

    try:
        with pytest.raises(TransactionEnded):
            await Once(database).arun(KEY, reopens)
    finally:
        await database.aclose()
    assert effects() == []


async def test_a_cancelled_coroutine_leaves_neither_key_nor_effect(database: Database, effects: Effects) -> None:
    once, entered = Once(database), asyncio.Event()

    async def hangs(session: AsyncSession) -> None:
        await session.execute(sa.text("INSERT INTO effects VALUES ('half')"))
        entered.set()
        await session.execute(sa.text("SELECT pg_sleep(60)"))

    async def charge(session: AsyncSession) -> None:
        await session.execute(sa.text("INSERT INTO effects VALUES ('whole')"))

    try:
        running = asyncio.create_task(once.arun(KEY, hangs))
        await asyncio.wait_for(entered.wait(), PATIENCE_S)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not (await once.arun(KEY, charge)).found
    finally:
        await database.aclose()
    assert effects() == ["whole"]


def write_and_fail(session: Session, value: str) -> None:
    write(session, value)
    raise LookupError


async def test_a_restarted_server_spends_no_coroutine_that_begins_after_it(
    database: Database, effects: Effects
) -> None:
    once = Once(database)

    async def insert(session: AsyncSession) -> None:
        await session.execute(sa.text("INSERT INTO effects VALUES ('x')"))

    try:
        for number in range(3):
            assert not (await once.arun(OnceKey("a.b", str(number), "j"), insert)).found
            hang_up_on(database)
            async with once.atransaction() as session:
                await insert(session)
            hang_up_on(database)
    finally:
        await database.aclose()
    assert effects() == ["x"] * 6


def hang_up_on(database: Database) -> None:
    """End all server processes of this database but the one that is asked."""
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with database.connect(autocommit=True) as connection:
        connection.execute(f"SELECT pg_terminate_backend(pid, 10000) {others}")


def timeouts(session: Session) -> object:
    return session.scalar(sa.text("SHOW statement_timeout"))


def test_a_jobs_statements_get_no_longer_than_the_job_has_left_and_the_next_jobs_get_the_usual(
    database: Database,
) -> None:
    once, context = Once(database), Context(Job(actor="a.b", queue="q"))
    context.due_s = SYSTEM.monotonic() + 20
    with running(context):
        told = once.run(OnceKey("a.b", "with-key", "j"), timeouts)
        with once.transaction() as session:
            plain = timeouts(session)
    assert not told.found
    least_ms, most_ms = 15_300, 20_300  # a moment more than the job has, so that its own watch is first
    assert all(least_ms < int(str(seen).removesuffix("ms")) <= most_ms for seen in (told.result, plain))
    assert once.run(OnceKey("a.b", "without-limit", "j"), timeouts).result == "1min"
    context.due_s = SYSTEM.monotonic() + 3600
    with running(context), once.transaction() as session:
        assert timeouts(session) == "1min"


def test_p26_a_statement_of_a_job_whose_time_is_up_is_cancelled_on_the_server(
    open_database: Open, database: Database
) -> None:
    context = Context(Job(actor="a.b", queue="q"))
    seen = []

    def sleep() -> None:
        with translated(), Once(database).transaction() as session:
            seen.append(session.scalar(sa.text("SELECT pg_backend_pid()")))
            context.due_s = SYSTEM.monotonic() + 0.1  # as a step does, when the transaction has begun
            session.execute(sa.text("SELECT pg_sleep(600)"))

    with running(context), pytest.raises(DatabaseLost):
        sleep()
    gone = sa.text("SELECT count(*) FROM pg_stat_activity WHERE pid = :pid")
    with open_database().transaction() as connection:
        eventually(lambda: connection.scalar(gone, {"pid": seen[0]}) == 0)
