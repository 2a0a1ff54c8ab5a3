"""Say how far a batch is, and end it exactly once.

Nothing counts while a batch runs: what is left are its slices, and the rest is done or dead. A counter that each slice
changed would be one row that all wait for, and under a held snapshot a chain of dead versions that grows with each.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.orm import Session

from smena import outbox
from smena.clock import SYSTEM
from smena.job import Job
from smena.telemetry import trace

IDLE_S: Final = """
    CAST(extract(epoch FROM clock_timestamp() - greatest(b.held_at, (
        SELECT max(lease_until) FROM smena.batch_slices WHERE batch = b.id))) AS float8)
"""
"""For how long nobody has had a batch ``b`` in hand, in seconds; not above zero while it is held or a retry waits."""

_STANDS: Final = f"""
SELECT b.id, b.key, b.actor, b.queue, b.per, b.mode, b.state, b.total, coalesce(d.dead, 0) AS dead,
       coalesce(s.left, 0) - coalesce(m.marked, 0) AS left, coalesce(s.held, 0) AS held,
       coalesce(s.waiting, 0) AS waiting, b.opened_at, b.ended_at,
       CAST(extract(epoch FROM coalesce(b.ended_at, clock_timestamp()) - b.opened_at) AS float8) AS seconds, b.epoch,
       CASE WHEN b.state = 'running' THEN greatest({IDLE_S}, 0) ELSE 0 END AS idle_s
FROM smena.batches AS b
LEFT JOIN LATERAL (
    SELECT CAST(sum(last - first + 1) AS bigint) AS left,
           CAST(sum(last - first + 1) FILTER (WHERE owner IS NOT NULL AND lease_until > clock_timestamp()) AS bigint)
               AS held,
           CAST(sum(last - first + 1) FILTER (WHERE owner IS NULL AND lease_until > clock_timestamp()) AS bigint)
               AS waiting
    FROM smena.batch_slices WHERE batch = b.id
) AS s ON true
LEFT JOIN LATERAL (
    SELECT count(*) AS marked FROM smena.batch_slices AS open
    JOIN smena.batch_marks AS done ON done.batch = open.batch AND done.number BETWEEN open.first AND open.last
    WHERE open.batch = b.id
) AS m ON true
LEFT JOIN LATERAL (SELECT count(*) AS dead FROM smena.batch_dead WHERE batch = b.id) AS d ON true
"""  # noqa: S608 - a constant
_STATUS: Final = sa.text(f"{_STANDS} WHERE b.id = :batch")
_LATEST: Final = sa.text(f"""
{_STANDS} WHERE b.id IN (SELECT id FROM smena.batches ORDER BY id DESC LIMIT :limit) ORDER BY b.id DESC
""")  # noqa: S608 - a constant
_COMPLETE: Final = sa.text("""
UPDATE smena.batches AS b
SET state = 'complete', ended_at = clock_timestamp(), dead = d.dead, done = total - d.dead
FROM (SELECT count(*) AS dead FROM smena.batch_dead WHERE batch = :batch) AS d
WHERE b.id = :batch AND state = 'running' AND NOT EXISTS (SELECT 1 FROM smena.batch_slices WHERE batch = :batch)
RETURNING b.id, b.epoch, b.total, b.done, b.dead, b.then_actor, b.then_queue, b.request_id, b.traceparent
""")
_ALONE: Final = sa.text("SELECT 1 FROM smena.batches WHERE id = :batch FOR NO KEY UPDATE")
_OUTLOOK: Final = sa.text("""
SELECT b.state, b.epoch = :epoch AS current,
       (SELECT CAST(extract(epoch FROM min(lease_until) - clock_timestamp()) AS float8)
        FROM smena.batch_slices WHERE batch = b.id) AS wait_s,
       EXISTS (SELECT 1 FROM smena.batch_slices WHERE batch = b.id) AS is_open
FROM smena.batches AS b WHERE b.id = :batch
""")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a batch is, in items. ``left`` includes those ``held`` by workers and those ``waiting`` for a retry.

    ``idle_s`` is for how long nobody has had a running one in hand: since it was opened, taken up again, or last seen
    at work, which is noted now and then.
    """

    id: int
    key: str | None
    actor: str
    queue: str
    per: str
    mode: str
    state: str
    total: int
    dead: int
    left: int
    held: int
    waiting: int
    opened_at: datetime
    ended_at: datetime | None
    seconds: float
    epoch: int
    idle_s: float

    @property
    def done(self) -> int:
        """Return how many items have had their effect."""
        return self.total - self.left - self.dead

    @property
    def rate(self) -> float | None:
        """Return the items settled in a second, on the average since it was opened; None once it stood still between.

        It did where it is paused or cancelled, or was taken up again (`resume`, `retry`); how long is not kept.
        """
        if self.epoch > 1 or self.state not in ("running", "complete") or self.seconds <= 0:
            return None
        return (self.done + self.dead) / self.seconds

    @property
    def eta_s(self) -> float | None:
        """Return the seconds that are left at that rate; None where nobody can know."""
        return self.left / self.rate if self.state == "running" and self.rate else None


@dataclass(frozen=True, slots=True)
class End:
    """What a batch came to; sent to the actor that `batches.open` was given as ``then``, by these names."""

    batch: int
    total: int
    done: int
    dead: int


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a shard job that found nothing may expect: whether to go on at all, and when to look again.

    ``is_open`` says that something is left, ``wait_s`` when the first of it may be taken.
    """

    goes_on: bool
    is_open: bool
    wait_s: float

    @classmethod
    def of(cls, row: Any) -> Outlook:
        """Return what a row of the batch says, or that there is none."""
        if row is None:
            return cls(goes_on=False, is_open=False, wait_s=0.0)
        wait_s = 0.0 if row.wait_s is None else max(0.0, float(row.wait_s))
        return cls(goes_on=row.state == "running" and row.current, is_open=row.is_open, wait_s=wait_s)


def status(within: sa.Connection | Session, batch: int) -> Progress | None:
    """Return how far a batch is, or None where there is none."""
    row = within.execute(_STATUS, {"batch": batch}).one_or_none()
    return None if row is None else Progress(*row)


def latest(within: sa.Connection | Session, limit: int) -> list[Progress]:
    """Return how far the batches are that were opened last, the last one first."""
    return [Progress(*row) for row in within.execute(_LATEST, {"limit": limit})]


def outlook(connection: sa.Connection, batch: int, epoch: int) -> Outlook:
    """Say whether shard jobs of this epoch are still wanted, and when there may be something to take."""
    return Outlook.of(connection.execute(_OUTLOOK, {"batch": batch, "epoch": epoch}).one_or_none())


def complete(connection: sa.Connection, batch: int) -> End | None:
    """End the batch if nothing of it is left, and send its callback in this transaction; None where it is not the end.

    Exactly one of all callers ends it: the others find it complete. Call it in a transaction of its own, after the
    last finish was committed; two that finish at once do not see each other's.
    """
    # A statement that waits for the row looks at it anew, but at the slices as they were before: what a `retry`
    # has cut meanwhile it would not see. The next statement sees all that was committed before it had the row.
    connection.execute(_ALONE, {"batch": batch})
    row = connection.execute(_COMPLETE, {"batch": batch}).one_or_none()
    if row is None:
        return None
    end = End(row.id, row.total, row.done, row.dead)
    if row.then_actor is not None:
        outbox.add(connection, _callback(row, end))
    return end


def _callback(row: sa.Row[tuple[object, ...]], end: End) -> Job:
    now_ms = SYSTEM.now_ms()
    return Job(
        id=f"batch-{end.batch}-end-{row.epoch}",
        actor=row.then_actor,
        queue=row.then_queue,
        kwargs={"batch": end.batch, "total": end.total, "done": end.done, "dead": end.dead},
        timestamp_ms=now_ms,
        first_enqueued_at_ms=now_ms,
        request_id=row.request_id,
        traceparent=trace.new_traceparent(row.traceparent),
    )
