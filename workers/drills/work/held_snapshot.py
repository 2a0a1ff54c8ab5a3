"""A snapshot is held for the whole run: no vacuum removes what dies, and a batch must not grow slower for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Final

import psycopg

from smena.records.old_transactions import holders
from smena.settings import load
from smena.store.database import Database
from workers.drills import book
from workers.drills.batch_load import BatchLoad
from workers.drills.drill import Drill
from workers.drills.ground import Ground
from workers.drills.load import LoadPlan

_ITEMS = 8_000
_WARM_ITEMS = 2_000
_HOLDER: Final = "drill-held-snapshot"
_DEAD: Final = """
SELECT coalesce(sum(n_tup_upd + n_tup_del), 0) FROM pg_stat_user_tables
WHERE schemaname = 'smena' AND relname LIKE 'batch%%'
"""
_FLUSH: Final = "SELECT pg_stat_force_next_flush()"
_MOST_DEAD: Final = 5
_MOST_TIMES: Final = 3
"""A table that grows slower with what died takes many times as long; how busy the machine is must not matter here."""


@contextmanager
def around(ground: Ground) -> Iterator[Mapping[str, str]]:
    """Hold a snapshot from before the first job to after the last."""
    url = load(env=ground.environ).database.libpq_url()
    with psycopg.connect(url, application_name=_HOLDER) as holder:
        holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT 1")
        yield {}


def fault(ground: Ground) -> None:
    """Work two batches of the same size under it: the second one lives among all that died for the first."""
    _worked(ground, _WARM_ITEMS)
    died_before = _dead(ground)
    first = _worked(ground)
    ground.strike(_ITEMS)
    second = _worked(ground)
    ground.recovered(second.is_complete, "the second batch to be complete")
    ground.bar("time of the second batch, times the first's", second.took_s() / first.took_s(), _MOST_TIMES)
    ground.bar("dead rows for a hundred items", 100 * (_dead(ground) - died_before) / (2 * _ITEMS), _MOST_DEAD)
    settings = load(env=ground.environ).database
    with closing(Database(settings, "smena-drill", pool_size=1)) as database, database.transaction() as connection:
        named = [one.application for one in holders(connection, limit=1)]
    ground.bar("smena doctor names the holder", named == [_HOLDER], 1, at_most=False)
    first.judge(ground)
    second.judge(ground)
    ground.notes["items/s"] = round(_ITEMS / second.took_s())


def _dead(ground: Ground) -> int:
    """Return how many rows of batches have died so far, those of other drills on the same database too."""
    ground.sight.rows(_FLUSH)
    [(dead,)] = ground.sight.rows(_DEAD)
    return int(dead)


def _worked(ground: Ground, count: int = _ITEMS) -> BatchLoad:
    batch = BatchLoad(ground, book.items, count, 0, per="slice")
    ground.until(batch.is_complete, "a batch to be complete")
    return batch


DRILL = Drill(
    name="held-snapshot",
    group="work",
    summary="a REPEATABLE READ transaction is open for the whole run",
    fault=fault,
    least_bite=_ITEMS,
    load=LoadPlan(ahead=10, ms=20),
    around=around,
)
