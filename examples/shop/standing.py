"""Tell how a run of the shop stands, from the database, the broker, the provider and the publisher."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg

from examples.shop.event_log import EventLog
from examples.shop.fleet import Fleet
from examples.shop.programs import Program
from examples.shop.publisher import Progress
from workers.drills.queues import QueueView

_DELAY_LATE_S: Final = 2.0
"""So much later than promised a delayed message may come: each level it passes takes a moment."""
_COUNTS: Final = """
SELECT (SELECT count(*) FROM shop.sales),
       (SELECT count(*) FROM shop.charges),
       (SELECT count(*) FROM shop.receipts),
       (SELECT count(*) FROM shop.stock_moves),
       (SELECT count(*) FROM smena.key_parked),
       (SELECT count(*) FROM shop.reports),
       (SELECT count(DISTINCT job_id) FROM smena.dead_letters),
       count(*) FILTER (WHERE actor = 'payments.charge'),
       count(*) FILTER (WHERE actor = 'mail.confirm'),
       count(*) FILTER (WHERE actor = 'receipts.render'),
       count(*) FILTER (WHERE state <> 'sent')
FROM smena.outbox WHERE attempt = 1 AND snoozes = 0
"""


@dataclass(frozen=True)
class Standing:
    """The run at one moment. The ``…_jobs`` are outbox rows; ``unsent`` those not yet relayed; ``parked`` jobs wait in
    rows for their turn in an ordered queue.

    ``is_delayed`` says whether a job that was put off may still be under way through the delay levels.
    """

    progress: Progress = field(default_factory=Progress)
    sales: int = 0
    charges: int = 0
    mails: int = 0
    receipts: int = 0
    moves: int = 0
    parked: int = 0
    reports: int = 0
    dead: int = 0
    charge_jobs: int = 0
    mail_jobs: int = 0
    receipt_jobs: int = 0
    unsent: int = 0
    waiting: int = 0
    unarchived: int = 0
    running: int = 0
    is_delayed: bool = False
    events: Counter[str] = field(default_factory=Counter)
    latency_ms: dict[str, float] = field(default_factory=dict)
    at_s: float = 0.0

    @property
    def done(self) -> int:
        """Return the effects so far."""
        return self.sales + self.moves + self.charges + self.mails + self.receipts

    @property
    def is_quiet(self) -> bool:
        """Say whether everything that was published has ended and nothing waits anywhere."""
        progress = self.progress
        follow_ups = self.mail_jobs + self.receipt_jobs
        all_ended = self.done + self.dead >= 2 * progress.lines + progress.orders + follow_ups
        all_sent = not self.unsent and progress.relayed >= self.charge_jobs + follow_ups
        stirs = self.waiting or self.parked or self.unarchived or self.running or self.is_delayed
        return progress.published and all_ended and all_sent and self.reports > 0 and not stirs

    def has_moved_since(self, earlier: Standing) -> bool:
        """Say whether anything was published or has ended since."""
        return (self.progress, self.done, self.dead, self.unsent) != (
            earlier.progress,
            earlier.done,
            earlier.dead,
            earlier.unsent,
        )


class Observer:
    """Looks at everything at once. The database's counts cost more the larger the run, so they are taken less often."""

    def __init__(
        self, connection: psycopg.Connection[Any], depths: QueueView, fleet: Fleet, events: EventLog, mail_log: Path
    ) -> None:
        self._connection = connection
        self._depths = depths
        self._fleet = fleet
        self._events = events
        self._mails = MailLog(mail_log)
        self._counts: tuple[int, ...] = (0,) * 11
        self._count_again_at = 0.0

    def look(self, publisher: Program) -> Standing:
        """Return how everything stands now."""
        counted = self._counted()
        sales, charges, receipts, moves, parked, reports, dead, charge_jobs, mail_jobs, receipt_jobs, unsent = counted
        self._events.read_on()
        return Standing(
            progress=Progress(**json.loads(publisher.last_line() or "{}")),
            sales=sales,
            charges=charges,
            mails=self._mails.count(),
            receipts=receipts,
            moves=moves,
            parked=parked,
            reports=reports,
            dead=dead,
            charge_jobs=charge_jobs,
            mail_jobs=mail_jobs,
            receipt_jobs=receipt_jobs,
            unsent=unsent,
            waiting=self._depths.waiting(),
            unarchived=self._depths.unarchived(),
            running=self._fleet.all_running(),
            is_delayed=time.time() < self._events.last_due_at + _DELAY_LATE_S,
            events=self._events.counts.copy(),
            latency_ms=self._events.latency_ms(),
            at_s=time.monotonic(),
        )

    def _counted(self) -> tuple[int, ...]:
        began = time.monotonic()
        if began >= self._count_again_at:
            self._counts = self._connection.execute(_COUNTS).fetchone() or self._counts
            took = time.monotonic() - began
            self._count_again_at = began + max(0.2, 20 * took)
        return self._counts


class MailLog:
    """The provider's log, read on as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._keys: set[str] = set()

    def count(self) -> int:
        """Return the distinct mails taken so far."""
        if self._path.exists():
            with self._path.open("rb") as log:
                log.seek(self._at)
                lines = log.read().rpartition(b"\n")[0].splitlines()
                self._at += sum(len(line) + 1 for line in lines)
            self._keys.update(json.loads(line)["key"] for line in lines)
        return len(self._keys)
