"""Fixtures of tests of schedules: a database, and who decides there under a term."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from pydantic import SecretStr

from smena.clock import SYSTEM
from smena.schedules.turns import Turns
from smena.settings.groups import Database as DatabaseSettings
from smena.store.database import Database
from smena.timetable import cron

from . import bench
from .bench import LEASE, Leads


@pytest.fixture(autouse=True)
def _hour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "HOUR", cron(f"{(SYSTEM.now().minute + 30) % 60} * * * *"))


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with closing(Database(DatabaseSettings(url=SecretStr(database_url)), "test")) as opened:
        yield opened


@pytest.fixture
def turns(database: Database) -> Turns:
    return Turns(database, LEASE, late_s=60, forgotten_s=3600)


@pytest.fixture
def term(database: Database) -> int:
    return Leads(database).number
