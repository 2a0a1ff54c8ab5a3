"""Sum the dead letters up: how many of each kind came, how many lie here, and since when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import sqlalchemy as sa

from smena.store.tables import dead_letters

MOST: Final = 1000
"""Kinds that are told apart at most; an actor's name comes from the message and may be anything."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The letters of one queue, actor and reason: ``came`` since the time asked for, ``open`` in all."""

    queue: str
    actor: str | None
    reason: str
    came: int
    open: int
    oldest_at: datetime
    oldest_s: float
    """How long ago the first of them died, by the database's clock."""


def kinds(connection: sa.Connection, since: datetime) -> list[Kind]:
    """Return the letters that nobody has removed, by kind: first those of which most came, then most lie."""
    letters = dead_letters.c
    came = sa.func.count().filter(letters.archived_at > since).label("came")
    lies = sa.func.count().label("open")
    oldest = sa.func.min(letters.died_at)
    age_s = sa.cast(sa.func.extract("epoch", sa.func.now() - oldest), sa.Float)
    query = sa.select(letters.queue, letters.actor, letters.reason, came, lies, oldest, age_s)
    query = query.group_by(letters.queue, letters.actor, letters.reason).order_by(came.desc(), lies.desc()).limit(MOST)
    return [Kind(*row) for row in connection.execute(query)]
