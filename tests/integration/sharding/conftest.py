"""Give the tests of sharding a database that is opened as a process opens it."""

from collections.abc import Iterator
from contextlib import closing

import pytest
import sqlalchemy as sa
from pydantic import SecretStr

from smena.settings.groups import Database as DatabaseSettings
from smena.store.database import Database

from . import book


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """Give a migrated database with a table for effects."""
    with closing(Database(DatabaseSettings(url=SecretStr(database_url)), "test")) as opened:
        with opened.transaction() as connection:
            connection.execute(sa.text("CREATE TABLE effects (item bigint, job_id text, attempt int)"))
        yield opened


@pytest.fixture(autouse=True)
def _doing() -> Iterator[None]:
    """Let the actors do nothing beside their effect, until the test says what."""
    yield
    book.doing.__init__()  # type: ignore[misc]  # as new
