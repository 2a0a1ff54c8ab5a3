"""Give the tests of sharding a database that is opened as a process opens it."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from pydantic import SecretStr

from smena.settings.groups import Database as DatabaseSettings
from smena.store.database import Database


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """Give a migrated database."""
    with closing(Database(DatabaseSettings(url=SecretStr(database_url)), "test")) as opened:
        yield opened
