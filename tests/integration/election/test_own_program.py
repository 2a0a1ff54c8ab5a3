"""What the page on leading in a program of one's own shows, done by two processes."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from tests.fixtures import page
from tests.fixtures.eventually import eventually
from tests.fixtures.field import Field

LATE = "INSERT INTO days (day) VALUES (current_date - %s)"
CLOSED = "SELECT closed_under FROM days ORDER BY day DESC"
SEATED = "SELECT term FROM smena.leases WHERE name = 'leader:close-days' AND expires_at > now()"
STANDING = """
SELECT FROM pg_stat_activity
WHERE starts_with(application_name, 'close-days') AND datname = current_database() AND wait_event = 'advisory'
"""


@pytest.fixture
def programs(tmp_path: Path, amqp_url: str, unique: str, database_url: str) -> Iterator[list[Field]]:
    """Give two places in which the page's program lies; whatever runs there ends with the test."""
    with ExitStack() as ends:
        fields = [Field(tmp_path / name, amqp_url, unique, database_url) for name in ("one", "other")]
        for field in fields:
            field.folder.mkdir()
            [program] = page.blocks(page.read("docs/howto/lead-in-your-own-program.md"), "python")
            assert field.write(program)
            ends.callback(field.clear)
        yield fields


def test_one_of_two_programs_leads_and_the_other_goes_on_under_the_next_term(
    programs: list[Field], database_url: str
) -> None:
    one, other = programs
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE days (day date, closed_under bigint)")
        one.up("python", "close_days.py")
        eventually(lambda: one.rows(SEATED) == [(1,)])
        other.up("python", "close_days.py")
        eventually(lambda: other.rows(STANDING))
        connection.execute(LATE, [1])
        one.wait_rows(CLOSED, [(1,)])
        one.clear()
        connection.execute(LATE, [2])
        one.wait_rows(CLOSED, [(1,), (2,)])
    assert "close-days" in other.run("smena", "leader", "list")


def test_a_block_that_stands_resigns_at_its_end(programs: list[Field]) -> None:
    program, _ = programs
    for term in ("1", "2"):
        led = program.run("python", "-c", STANDS_ONCE)
        assert led == f"{term}\n"
    assert program.rows(SEATED) == []


STANDS_ONCE = """
from contextlib import closing
from smena.guarantees.election.candidacy import standing
from smena.settings import load
from smena.store.database import Database
settings = load()
with closing(Database(settings.database, "close-days")) as database:
    with standing("close-days", settings, database) as leadership, leadership.lead(wait_s=60) as tenure:
        print(tenure.number)
"""
