"""Give the store's tests databases that are opened as a process opens them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import sqlalchemy as sa

from smena.settings.groups import Database as DatabaseSettings
from smena.store.database import Database

Open = Callable[..., Database]


@pytest.fixture
def open_database(database_url: str) -> Iterator[Open]:
    """Give a function that opens a `Database`; its arguments are settings. All are closed with the test."""
    with ExitStack() as closing:

        def opened(**settings: Any) -> Database:
            pool_size = settings.pop("pool_size", 24)
            database = Database(DatabaseSettings(**{"url": database_url} | settings), "test", pool_size)
            closing.callback(database.close)
            return database

        yield opened


@pytest.fixture
def database(open_database: Open) -> Database:
    """Give a database with the schema `smena` and a table `effects (v text)`."""
    database = open_database()
    with database.transaction() as connection:
        connection.execute(sa.text("CREATE TABLE effects (v text)"))
    return database


@pytest.fixture
def effects(database: Database) -> Callable[[], list[str]]:
    """Give a function that returns what is committed in `effects`."""

    def committed() -> list[str]:
        with database.transaction() as connection:
            return list(connection.scalars(sa.text("SELECT v FROM effects ORDER BY v")))

    return committed
