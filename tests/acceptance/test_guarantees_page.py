"""What the page of guarantees says refuses to boot, refuses."""

import pytest

from tests.acceptance.fleet.real import RealFleet
from tests.fixtures import page

BOOKS = {
    "an actor with `once`": "tests.acceptance.jobs.wants_once",
    "an actor with a `Session`": "tests.acceptance.jobs.wants_session",
    "an actor with `partition_by`": "tests.acceptance.jobs.ordered",
    "the relay's claims": "tests.acceptance.jobs.bare",
    "the archivist's solo duties": "tests.acceptance.jobs.bare",
    "the ticks of schedules": "tests.acceptance.jobs.bare",
}
ROWS = page.rows(page.section(page.read("docs/reference/guarantees.md"), "What refuses to boot without PostgreSQL"))


@pytest.mark.parametrize(("_guarantee", "asks", "command", "says"), ROWS, ids=[row[1] for row in ROWS])
def test_what_cannot_hold_without_a_database_refuses_to_boot(
    bare_fleet: RealFleet, _guarantee: str, asks: str, command: str, says: str
) -> None:
    bare_fleet.up(roles=command.strip("`").removeprefix("smena "), books=BOOKS[asks])
    assert bare_fleet.exit_code() == 2
    assert says in bare_fleet.errors()
