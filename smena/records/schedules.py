"""Keep the schedules: what is to run when, and up to when that is decided. Their SQL, no policy.

All times are the database's. Whoever decides about a schedule locks its row first, so two never decide at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from smena.store.tables import schedules
from smena.timetable import Misfire, Overlap
from smena.timetable.misfire import CAP

Source = Literal["book", "added"]

COME_BACK: Final = "1 day"
"""A schedule that was away for no longer goes on where it was: during a deploy two builds take turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A schedule as its owner wants it: a rule (`When.spec`), a job, and the policies."""

    name: str
    source: Source
    spec: str
    actor: str
    queue: str
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    misfire: Misfire = "one"
    misfire_cap: int = CAP
    overlap: Overlap = "skip"


@dataclass(frozen=True, slots=True)
class Kept:
    """A schedule in the table."""

    wanted: Wanted
    since: datetime
    next_at: datetime | None
    paused_at: datetime | None
    removed_at: datetime | None


class Overdue(NamedTuple):
    """A schedule with a tick that nobody decided, and for how long already."""

    name: str
    late_s: float


def clock(connection: sa.Connection) -> datetime:
    """Return the database's time, not that of the transaction's start."""
    return connection.execute(_CLOCK).scalar_one()


def begin(connection: sa.Connection, wanted: Wanted, since: datetime) -> bool:
    """Write a schedule that is not there yet, decided up to ``since``; say whether it was not."""
    insert = pg.insert(schedules).values(**_columns(wanted), since=since).on_conflict_do_nothing()
    return connection.execute(insert.returning(schedules.c.name)).first() is not None


def change(connection: sa.Connection, wanted: Wanted, since: datetime | None) -> None:
    """Let a schedule be as it is wanted now; with ``since`` it begins anew there."""
    values = _columns(wanted) | {"removed_at": None, "declared_at": sa.func.clock_timestamp()}
    if since is not None:
        values["since"] = since
    connection.execute(sa.update(schedules).where(schedules.c.name == wanted.name).values(**values))


def lock(connection: sa.Connection, name: str) -> Kept | None:
    """Return a schedule, which nobody else decides about until this transaction ends."""
    row = connection.execute(sa.select(schedules).where(schedules.c.name == name).with_for_update()).first()
    return None if row is None else _kept(row._mapping)  # noqa: SLF001 - SQLAlchemy's public name


def decided(connection: sa.Connection, name: str, since: datetime, next_at: datetime | None) -> None:
    """Note up to when a schedule is decided, and what comes after that."""
    connection.execute(sa.update(schedules).where(schedules.c.name == name).values(since=since, next_at=next_at))


def due(connection: sa.Connection) -> list[str]:
    """Return the names of schedules with a tick that is due, the longest due first."""
    is_due = sa.and_(_ACTIVE, schedules.c.next_at <= sa.func.clock_timestamp())
    return list(connection.scalars(sa.select(schedules.c.name).where(is_due).order_by(schedules.c.next_at)))


def overdue(connection: sa.Connection, late_s: float) -> list[Overdue]:
    """Return the schedules with a tick that is due for more than ``late_s`` and not decided, the longest due first."""
    age_s = sa.cast(sa.extract("epoch", sa.func.clock_timestamp() - schedules.c.next_at), sa.Double)
    query = sa.select(schedules.c.name, age_s).where(_ACTIVE, age_s > late_s).order_by(schedules.c.next_at)
    return [Overdue(*row) for row in connection.execute(query)]


def until_next_s(connection: sa.Connection) -> float | None:
    """Return the seconds to the next tick of all, below zero when it is due; None when none comes."""
    left = sa.func.min(schedules.c.next_at) - sa.func.clock_timestamp()
    seconds = connection.scalar(sa.select(sa.extract("epoch", left)).where(_ACTIVE))
    return None if seconds is None else float(seconds)


def pause(connection: sa.Connection, name: str) -> None:
    """Let a schedule rest; its ticks are not decided meanwhile."""
    connection.execute(sa.update(schedules).where(schedules.c.name == name).values(paused_at=sa.func.now()))


def resume(connection: sa.Connection, name: str) -> None:
    """Let a schedule go on."""
    connection.execute(sa.update(schedules).where(schedules.c.name == name).values(paused_at=None))


def retire(connection: sa.Connection, books: Collection[str], declared: Collection[str]) -> list[str]:
    """Let the schedules rest that a book of those declared once and does not any more; return their names."""
    of_these = sa.func.regexp_replace(schedules.c.actor, r"\.[^.]*$", "").in_(books)
    gone = sa.and_(schedules.c.source == "book", schedules.c.removed_at.is_(None), of_these)
    return list(
        connection.scalars(
            sa.update(schedules)
            .where(gone, schedules.c.name.not_in(declared))
            .values(removed_at=sa.func.clock_timestamp())
            .returning(schedules.c.name)
        )
    )


def was_away_long(connection: sa.Connection, name: str) -> bool:
    """Say whether a schedule was retired so long ago that it begins anew."""
    long_ago = schedules.c.removed_at < sa.func.clock_timestamp() - sa.cast(COME_BACK, pg.INTERVAL)
    return bool(connection.scalar(sa.select(long_ago).where(schedules.c.name == name)))


def remove(connection: sa.Connection, name: str) -> bool:
    """Delete a schedule; its ticks stay until they are old. Say whether it was there."""
    return connection.execute(sa.delete(schedules).where(schedules.c.name == name)).rowcount == 1


def all_kept(connection: sa.Connection) -> list[Kept]:
    """Return all schedules, by name."""
    rows = connection.execute(sa.select(schedules).order_by(schedules.c.name)).mappings()
    return [_kept(row) for row in rows]


_CLOCK: Final = sa.select(sa.func.clock_timestamp(type_=sa.DateTime(timezone=True)))
_ACTIVE: Final = sa.and_(schedules.c.paused_at.is_(None), schedules.c.removed_at.is_(None))
_WANTED: Final = tuple(Wanted.__dataclass_fields__)


def _columns(wanted: Wanted) -> dict[str, Any]:
    return asdict(wanted) | {"args": list(wanted.args)}


def _kept(row: Mapping[str, Any] | sa.RowMapping) -> Kept:
    wanted = Wanted(**{name: row[name] for name in _WANTED})
    return Kept(wanted, row["since"], row["next_at"], row["paused_at"], row["removed_at"])
