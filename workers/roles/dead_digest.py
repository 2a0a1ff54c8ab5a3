"""Tell once a period what has died: the dead letters of each queue, actor and reason, those that came and all that lie.

A period is told of by a tick's row, unique by its planned time, so two janitors tell it once, and so does one that is
started anew; `smena schedule history fleet:dead_digest` shows when. What nobody ran for is told of with the next one:
"came" counts from the digest before.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from smena.clock import Clock
from smena.records import dead_digest, schedules, ticks
from smena.records.dead_digest import Kind
from smena.records.ticks import Tick
from smena.store.database import Database
from smena.telemetry import events
from smena.timetable.interval import Every
from workers.roles.janitor import PREFIX

NAME: Final = f"{PREFIX}dead_digest"
MOST_TOLD: Final = 50
"""Kinds that get a line; the last line counts them all."""

_LOOK_S: Final = 30.0


class DeadDigest:
    """The digest as a duty of the janitor."""

    def __init__(self, database: Database, every_s: float, clock: Clock) -> None:
        self._database = database
        self._every = Every(timedelta(seconds=every_s))
        self._clock = clock
        self._look_at_s = clock.monotonic()

    def tell_if_due(self, _limit: int) -> int:
        """Tell of the period that has ended last, unless it was told; return 0, for nothing is deleted."""
        now_s = self._clock.monotonic()
        if now_s < self._look_at_s:
            return 0
        self._look_at_s = now_s + _LOOK_S
        with self._database.transaction() as connection:
            now = schedules.clock(connection)
            before = ticks.newest(connection, NAME)
            at = self._every.after(now) - self._every.period
            if ticks.write(connection, Tick(schedule=NAME, at=at, state="fired", why="on_time")):
                since = now - self._every.period if before is None else before
                tell(dead_digest.kinds(connection, since), since)  # before the commit: twice rather than never
                ticks.end(connection, NAME, at)
        return 0


def tell(kinds: list[Kind], since: datetime) -> None:
    """Emit a line for each kind, and one for them all."""
    for kind in kinds[:MOST_TOLD]:
        events.emit(
            events.DEAD_DIGEST,
            queue=kind.queue,
            actor=kind.actor,
            reason=kind.reason,
            came=kind.came,
            open=kind.open,
            oldest_s=round(kind.oldest_s),
        )
    events.emit(
        events.DEAD_DIGESTED,
        since=since.isoformat(),
        kinds=len(kinds),
        came=sum(kind.came for kind in kinds),
        open=sum(kind.open for kind in kinds),
    )
