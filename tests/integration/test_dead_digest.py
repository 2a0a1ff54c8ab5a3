"""Once a period it is told what has died and what lies: by kinds, once for all janitors, and by hand at any time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from click.testing import CliRunner
from pydantic import SecretStr

from smena.records import ticks
from smena.records.dead_letters import DeadLetter, DeadLetters
from smena.settings import Settings
from smena.settings.groups import Database as DatabaseSettings
from smena.store.database import Database
from smena.telemetry import events
from smena.telemetry.event import Occurrence
from tests.fixtures.fix_events import Listen
from tests.fixtures.fix_shell import Shell
from workers.cli.dead import dead
from workers.cli.schedule import schedule
from workers.roles.dead_digest import NAME, DeadDigest
from workers.wiring.duties import duties_of

DAY_S = 86_400.0


@dataclass
class Watch:
    """A clock that goes on by a minute with each look."""

    seconds: float = field(default=0.0)

    def now(self) -> datetime:
        return datetime.now(UTC)

    def now_ms(self) -> int:
        return round(self.now().timestamp() * 1000)

    def monotonic(self) -> float:
        self.seconds += 60.0
        return self.seconds


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with closing(Database(DatabaseSettings(url=SecretStr(database_url)), "test")) as opened:
        yield opened


@pytest.fixture
def told(listen: Listen) -> list[Occurrence]:
    return listen(events.DEAD_DIGEST, events.DEAD_DIGESTED)


def died(database: Database, job: str, actor: str | None, reason: str, ago: timedelta = timedelta()) -> None:
    at = datetime.now(UTC) - ago
    letter = DeadLetter(job_id=job, attempt=1, queue="q", actor=actor, reason=reason, died_at=at, body=b"")
    assert DeadLetters(database).insert_many([letter]) == [None]
    with database.transaction() as connection:
        connection.execute(
            sa.text("UPDATE smena.dead_letters SET archived_at = :at WHERE job_id = :job"), {"at": at, "job": job}
        )


def some(database: Database) -> None:
    """Let three kinds of jobs die, one of them long ago."""
    died(database, "old", "a.b", "bad", timedelta(days=3))
    died(database, "new", "a.b", "bad")
    died(database, "worse", "a.b", "worse")
    died(database, "bytes", None, "undecodable", timedelta(days=9))


def test_it_is_told_by_kind_once_a_period_whoever_the_janitor_is(database: Database, told: list[Occurrence]) -> None:
    some(database)
    for _ in range(2):
        digest = DeadDigest(database, DAY_S, Watch())
        for _ in range(3):
            assert digest.tell_if_due(1000) == 0
    *kinds, total = told
    assert [(one.fields["actor"], one.fields["reason"], one.fields["came"], one.fields["open"]) for one in kinds] == [
        ("a.b", "bad", 1, 2),
        ("a.b", "worse", 1, 1),
        (None, "undecodable", 0, 1),
    ]
    assert kinds[0].fields["oldest_s"] == pytest.approx(3 * DAY_S, abs=300)
    assert total.event == events.DEAD_DIGESTED
    assert (total.fields["kinds"], total.fields["came"], total.fields["open"]) == (3, 2, 4)


def test_what_came_while_nobody_told_is_told_with_the_next_digest(database: Database, told: list[Occurrence]) -> None:
    digest = DeadDigest(database, DAY_S, Watch())
    digest.tell_if_due(1000)
    some(database)
    with database.transaction() as connection:  # as if that had been five days ago
        connection.execute(
            sa.text("UPDATE smena.ticks SET at = at - interval '5 days', decided_at = decided_at - interval '5 days'")
        )
    digest.tell_if_due(1000)
    assert (told[-1].fields["came"], told[-1].fields["open"]) == (3, 4)
    with database.transaction() as connection:
        history = ticks.history(connection, NAME, 10)
    assert [one.ending for one in history] == ["done", "done"], "so its ticks go when they are old"


def test_an_operator_sees_it_at_any_time_and_when_it_was_told(
    database: Database, database_url: str, shell: Shell
) -> None:
    shell.set(database_url=database_url)
    assert "no dead letters" in CliRunner().invoke(dead, ["digest"]).output
    some(database)
    (duty,) = [duty for duty in duties_of(Settings(), database) if duty.name == NAME]
    duty.prune(1000)
    kinds = json.loads(CliRunner().invoke(dead, ["digest", "--days", "4", "--json"]).output)
    assert [(kind["reason"], kind["came"], kind["open"]) for kind in kinds] == [
        ("bad", 2, 2),
        ("worse", 1, 1),
        ("undecodable", 0, 1),
    ]
    assert "(not decodable)" in CliRunner().invoke(dead, ["digest"]).output
    assert "fired" in CliRunner().invoke(schedule, ["history", NAME]).output
