"""A scheduler that commits a tick's row before its job's: killed between the two, it leaves a tick without a job."""

from __future__ import annotations

from unittest.mock import patch

import sqlalchemy as sa

from smena.records import ticks
from smena.records.ticks import Tick
from smena.settings import Settings
from smena.store.database import Database
from workers.process.child import Child
from workers.wiring import scheduler

__all__ = ["run"]


def run(settings: Settings, child: Child) -> int:
    """Be such a scheduler."""
    database, write = Database(settings.database, "apart", 1), ticks.write

    def write_apart(_connection: sa.Connection, tick: Tick) -> bool:
        with database.transaction() as own:
            return write(own, tick)

    with patch.object(ticks, "write", write_apart):
        return scheduler.run(settings, child)
