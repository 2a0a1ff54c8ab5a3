"""An ordered job's effect commits only in its turn: under its partition's term, and its parked row goes with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from smena.errors import TermLost
from smena.guarantees.once import Once, OnceKey
from smena.records.turns import Turn
from smena.store import terms
from smena.store.database import Database

Effects = Callable[[], list[str]]


def write(session: Session, value: str) -> None:
    session.execute(sa.text("INSERT INTO effects VALUES (:v)"), {"v": value})


def _turn(database: Database, row: int | None = None) -> Turn:
    with database.transaction() as connection:
        term = terms.take(connection, "partition:q:000", "me", 60)
    assert term is not None
    return Turn(term, row)


def _taken_over(database: Database) -> None:
    with database.transaction() as connection:
        connection.execute(sa.text("UPDATE smena.leases SET expires_at = now() - interval '1 s'"))
        assert terms.take(connection, "partition:q:000", "another", 60) is not None


def test_an_effect_out_of_its_turn_does_not_commit(effects: Effects, database: Database) -> None:
    turn = _turn(database)
    key = OnceKey("actor", "key", "job")

    def effect(session: Session) -> None:
        write(session, "too late")
        _taken_over(database)

    with pytest.raises(TermLost):
        Once(database).run(key, effect, turn)
    assert effects() == []
    assert not Once(database).run(key, lambda session: write(session, "in time")).found


async def test_an_effect_out_of_its_turn_does_not_commit_on_the_event_loop(
    effects: Effects, database: Database
) -> None:
    turn = _turn(database)

    async def effect(session: AsyncSession) -> int:
        await session.execute(sa.text("INSERT INTO effects VALUES ('too late')"))
        _taken_over(database)
        return 7

    with pytest.raises(TermLost):
        await Once(database).arun(OnceKey("actor", "key", "job"), effect, turn)
    await database.aclose()
    assert effects() == []


def test_a_parked_row_goes_with_its_jobs_effect(effects: Effects, database: Database) -> None:
    values = "('q', 0, 'k', 'job', 'a.b', 1, 0, '', '{}')"
    columns = "(queue, partition, key, job_id, actor, attempt, snoozes, body, properties)"
    with database.transaction() as connection:
        row = connection.execute(
            sa.text(f"INSERT INTO smena.key_parked {columns} VALUES {values} RETURNING seq")  # noqa: S608 - constants
        ).scalar_one()

    Once(database).run(OnceKey("actor", "key", "job"), lambda session: write(session, "done"), _turn(database, row))

    with database.transaction() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM smena.key_parked")).scalar_one() == 0
    assert effects() == ["done"]


def test_what_a_frozen_owners_job_has_locked_is_free_before_its_lease_is_over(database: Database) -> None:
    turn = replace(_turn(database), idle_s=0.3)
    frozen = OnceKey("actor", "key", "job")

    def freeze(session: Session) -> None:
        session.execute(sa.text("LOCK TABLE effects"))
        with database.transaction() as connection:  # waits for the lock, which nobody but the server gives back
            connection.execute(sa.text("SELECT count(*) FROM effects"))
        session.execute(sa.text("SELECT 1"))

    with pytest.raises(sa.exc.DBAPIError) as lost:
        Once(database).run(frozen, freeze, turn)
    assert lost.value.connection_invalidated


async def test_a_turns_bound_ends_with_its_transaction(database: Database) -> None:
    turn = replace(_turn(database), idle_s=1.5)
    show = sa.text("SHOW idle_in_transaction_session_timeout")

    async def look(session: AsyncSession) -> str:
        return str(await session.scalar(show))

    assert (await Once(database).arun(OnceKey("actor", "key", "job"), look, turn)).result == "1500ms"
    assert (await Once(database).arun(OnceKey("actor", "later", "job"), look)).result != "1500ms"
    await database.aclose()
