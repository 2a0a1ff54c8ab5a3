"""Keep what became of each tick of a schedule. Its SQL, no policy.

A tick's row is unique by (schedule, planned time), whoever writes it: the scheduler that leads, one that thinks it
still does, a Kubernetes CronJob. It is written with the outbox row of its job, in one transaction, so there is no
moment at which one of them is there without the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final, Literal

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from smena.records.pruning import delete_some, older_than
from smena.records.schedules import COME_BACK
from smena.store.database import Database
from smena.store.tables import dead_letters, schedules, settlements, ticks

State = Literal["fired", "waiting", "skipped"]
Why = Literal["on_time", "caught_up", "by_hand", "after_wait", "missed", "busy", "queue_full", "paused", "removed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """What becomes of a tick. ``until`` and ``count`` where one row tells of several that were passed over."""

    schedule: str
    at: datetime
    state: State
    why: Why
    job_id: str | None = None
    until: datetime | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class KeptTick:
    """A tick in the table."""

    tick: Tick
    decided_at: datetime
    fired_at: datetime | None
    ended_at: datetime | None
    ending: str | None


def write(connection: sa.Connection, tick: Tick) -> bool:
    """Write a tick's row; False where that tick is decided already, also as one of several."""
    if connection.scalar(sa.select(covering(tick))):
        return False
    fired_at = sa.func.clock_timestamp() if tick.state == "fired" else None
    insert = pg.insert(ticks).values(**asdict(tick), fired_at=fired_at).on_conflict_do_nothing()
    return connection.execute(insert.returning(ticks.c.at)).first() is not None


def hold(connection: sa.Connection, schedule: str, at: datetime) -> None:
    """Let everybody else who holds this tick wait until the transaction ends."""
    of_this = sa.and_(ticks.c.schedule == schedule, ticks.c.at == at)
    connection.execute(sa.select(ticks.c.at).where(of_this).with_for_update())


def standing(connection: sa.Connection, schedule: str) -> tuple[bool, int]:
    """Return whether the job of a tick has not ended, and how many ticks wait."""
    of_this = ticks.c.schedule == schedule
    row = connection.execute(
        sa.select(
            sa.exists().where(of_this, _OPEN),
            sa.select(sa.func.count()).where(of_this, ticks.c.state == "waiting").scalar_subquery(),
        )
    ).one()
    return bool(row[0]), int(row[1])


def oldest_waiting(connection: sa.Connection, schedule: str) -> datetime | None:
    """Return the planned time of the first tick that waits."""
    at: datetime | None = connection.scalar(
        sa.select(sa.func.min(ticks.c.at)).where(ticks.c.schedule == schedule, ticks.c.state == "waiting")
    )
    return at


def fire_waiting(connection: sa.Connection, schedule: str, at: datetime, job_id: str) -> bool:
    """Let a tick that waited be fired; False where it does not wait any more."""
    waits = sa.and_(ticks.c.schedule == schedule, ticks.c.at == at, ticks.c.state == "waiting")
    fired = {"state": "fired", "why": "after_wait", "job_id": job_id, "fired_at": sa.func.clock_timestamp()}
    return connection.execute(sa.update(ticks).where(waits).values(**fired)).rowcount == 1


def with_waiting(connection: sa.Connection) -> list[str]:
    """Return the schedules of which ticks wait, but for those that rest, or may come back."""
    lately = schedules.c.removed_at >= sa.func.clock_timestamp() - sa.cast(COME_BACK, pg.INTERVAL)
    is_paused = sa.and_(schedules.c.paused_at.is_not(None), schedules.c.removed_at.is_(None))
    rests = sa.exists().where(schedules.c.name == ticks.c.schedule, sa.or_(is_paused, lately))
    waits = sa.select(ticks.c.schedule).where(ticks.c.state == "waiting", ~rests).distinct()
    return list(connection.scalars(waits))


def drop_waiting(connection: sa.Connection, schedule: str, why: Why) -> None:
    """Let nothing of a schedule wait any more."""
    waits = sa.and_(ticks.c.schedule == schedule, ticks.c.state == "waiting")
    connection.execute(sa.update(ticks).where(waits).values(state="skipped", why=why))


def newest(connection: sa.Connection, schedule: str) -> datetime | None:
    """Return when the newest tick of a schedule was decided."""
    decided: datetime | None = connection.scalar(
        sa.select(sa.func.max(ticks.c.decided_at)).where(ticks.c.schedule == schedule)
    )
    return decided


def end(connection: sa.Connection, schedule: str, at: datetime) -> None:
    """Note that what a tick stands for is done, where no job does it."""
    of_this = sa.and_(ticks.c.schedule == schedule, ticks.c.at == at)
    ended = {"ended_at": sa.func.clock_timestamp(), "ending": "done"}
    connection.execute(sa.update(ticks).where(of_this).values(**ended))


def close_dead(connection: sa.Connection, forgotten_s: float) -> int:
    """Note the end of ticks whose job is dead, or of which nothing was heard for so long; return how many."""
    died = sa.exists().where(settlements.c.job_id == ticks.c.job_id, settlements.c.kind == "dead")
    lies = sa.exists().where(dead_letters.c.job_id == ticks.c.job_id)
    ended = {"ended_at": sa.func.clock_timestamp()}
    dead = connection.execute(sa.update(ticks).where(_OPEN, died | lies).values(**ended, ending="dead"))
    is_old = older_than(ticks.c.fired_at, forgotten_s)
    forgotten = connection.execute(sa.update(ticks).where(_OPEN, is_old).values(**ended, ending="forgotten"))
    return dead.rowcount + forgotten.rowcount


def history(connection: sa.Connection, schedule: str, limit: int) -> list[KeptTick]:
    """Return the newest ticks, the newest first."""
    newest = sa.select(ticks).where(ticks.c.schedule == schedule).order_by(ticks.c.at.desc()).limit(limit)
    return [_kept(row) for row in connection.execute(newest).mappings()]


def prune(connection: sa.Connection, keep_s: float, limit: int = 1000) -> int:
    """Delete rows that were decided long ago, at most ``limit``; return how many. What has not ended stays."""
    is_over = sa.or_(ticks.c.state == "skipped", ticks.c.ended_at.is_not(None))
    is_errand = ticks.c.schedule.startswith("once:")  # its row is why it is not done again
    return delete_some(connection, ticks, sa.and_(is_over, ~is_errand, older_than(ticks.c.decided_at, keep_s)), limit)


class Endings:
    """Note that jobs of ticks are done; for the workers. Safe from all threads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def done(self, job_ids: Sequence[str]) -> None:
        """Note it for those that are jobs of a tick; twice is once."""
        with self._database.transaction() as connection:
            ours = sa.and_(ticks.c.job_id == sa.any_(sa.cast(list(job_ids), pg.ARRAY(sa.Text))), _OPEN)
            ended = {"ended_at": sa.func.clock_timestamp(), "ending": "done"}
            connection.execute(sa.update(ticks).where(ours).values(**ended))


_OPEN: Final = sa.and_(ticks.c.state == "fired", ticks.c.ended_at.is_(None))
_TICK: Final = tuple(Tick.__dataclass_fields__)


def covering(tick: Tick) -> sa.Exists:
    """Say whether a row of several ticks holds this one."""
    return sa.exists().where(ticks.c.schedule == tick.schedule, ticks.c.at <= tick.at, ticks.c.until >= tick.at)


def _kept(row: sa.RowMapping) -> KeptTick:
    tick = Tick(**{name: row[name] for name in _TICK})
    return KeptTick(tick, row["decided_at"], row["fired_at"], row["ended_at"], row["ending"])
