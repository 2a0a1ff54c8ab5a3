"""A batch for a drill: its items are jobs of the run like all others, judged by the same rows.

Each item is a `Piece` and shows itself as running like any job of the drills; so what is lost or doubled of a batch is
found by the same statement. The items are noted in the transaction that opens the batch: they are accepted with it.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any, Final, LiteralString

import sqlalchemy as sa

from sharding import batches
from smena.book import Actor
from smena.settings import load
from smena.store.database import Database
from workers.drills import book
from workers.drills.ground import Ground
from workers.drills.load import APART

LAST_LOOK_S: Final = 3.5
"""In so long the shard jobs that found nothing free have come back, as late as a lease of 3 s, and ended."""

_FIRST: Final = sa.text("SELECT coalesce(max(number), 0) + :apart FROM drill.jobs")
"""Far above the numbers that the load gives meanwhile."""

_NOTE: Final = sa.text("""
INSERT INTO drill.jobs (number, job_id, run, actor, duration_ms, accepted_at)
SELECT :first + n, :run || '-item-' || (:first + n), :run, :actor, :ms, clock_timestamp()
FROM generate_series(0, :count - 1) AS n
""")
_STANDS: Final = """
SELECT state, total, (SELECT coalesce(sum(last - first + 1), 0) FROM smena.batch_slices WHERE batch = b.id)
FROM smena.batches AS b WHERE id = %(batch)s
"""
_IN_HAND: Final = """
WITH runs AS (
    SELECT objid::bigint - %(first)s AS item, classid::int AS process FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 2 AND granted
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
), owners AS (
    SELECT DISTINCT split_part(s.owner, '/', 1) AS life, runs.process
    FROM smena.batch_slices AS s JOIN runs ON runs.item BETWEEN s.first AND s.last
    WHERE s.batch = %(batch)s AND s.owner IS NOT NULL
)
SELECT s.first, s.last, owners.process FROM smena.batch_slices AS s JOIN owners ON life = split_part(s.owner, '/', 1)
WHERE s.batch = %(batch)s AND s.lease_until > clock_timestamp()
"""
_EFFECTIVE: Final = "SELECT DISTINCT number FROM drill.effects WHERE run = %(run)s AND number = ANY (%(numbers)s)"
_WRITTEN_BY: Final = """
SELECT count(*) FROM drill.effects
WHERE run = %(run)s AND number = ANY (%(numbers)s) AND process = ANY (%(processes)s)
"""
_CALLBACKS: Final = "SELECT count(*) FROM smena.outbox WHERE actor = 'drill.ended' AND id LIKE %(id)s"
_FINISHED: Final = """
SELECT (extract(epoch FROM ended_at) - extract(epoch FROM opened_at))::float8 FROM smena.batches WHERE id = %(batch)s
"""


class BatchLoad:
    """One batch under drill and what the database shows of it."""

    def __init__(self, ground: Ground, actor: Actor[..., Any], count: int, ms: int, **options: Any) -> None:
        self._sight = ground.sight
        self.count = count
        settings = load(env=ground.environ).database
        with (
            closing(Database(settings, "smena-drill-batch", pool_size=1)) as database,
            database.session() as session,
        ):
            self.first = int(session.scalar(_FIRST, {"apart": APART}) or 0)
            note = {"first": self.first, "run": ground.run, "actor": actor.name, "ms": ms, "count": count}
            session.execute(_NOTE, note)
            pieces = (book.Piece(self.first + number, ground.run, ms) for number in range(count))
            opened = batches.open(session, actor, pieces, then=book.ended, **options)
            session.commit()
        self.id = opened.id

    def is_complete(self) -> bool:
        """Say whether it has come to its end."""
        return bool(self._stands()[0] == "complete")

    def left(self) -> int:
        """Return how many of its items are in no end."""
        return int(self._stands()[2])

    def in_hand(self, *processes: int) -> list[int]:
        """Return the jobs' numbers of all items that these processes hold now and that have no effect yet."""
        rows = self._sight.rows(_IN_HAND, batch=self.id, first=self.first)
        held = [self.first + n for first, last, pid in rows if pid in processes for n in range(first, last + 1)]
        return sorted(set(held) - self.effective(held))

    def effective(self, numbers: list[int]) -> set[int]:
        """Return which of these have taken effect."""
        return {int(number) for (number,) in self._sight.rows(_EFFECTIVE, numbers=numbers)}

    def written_by(self, numbers: list[int], processes: list[int]) -> int:
        """Return how many effects of these items are of these processes."""
        return self._one(_WRITTEN_BY, numbers=numbers, processes=processes)

    def callbacks(self) -> int:
        """Return how often its end was told."""
        return self._one(_CALLBACKS, id=f"batch-{self.id}-end-%")

    def took_s(self) -> float:
        """Return how long it took from open to complete."""
        [(seconds,)] = self._sight.rows(_FINISHED, batch=self.id)
        return float(seconds)

    def judge(self, ground: Ground) -> None:
        """Wait for its end; have judged that nothing of it is left and that its end was told once."""
        ground.until(self.is_complete, "the batch to be complete")
        ground.go_on(LAST_LOOK_S)
        ground.bar("items left", self.left(), 0)
        ground.bar("times its end was told, beside once", abs(self.callbacks() - 1), 0)

    def _stands(self) -> tuple[Any, ...]:
        [row] = self._sight.rows(_STANDS, batch=self.id)
        return row

    def _one(self, query: LiteralString, **values: object) -> int:
        [(value,)] = self._sight.rows(query, **values)
        return int(value)
