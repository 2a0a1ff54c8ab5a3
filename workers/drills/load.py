"""Load for a drill: a publisher that keeps so many jobs outstanding, and notes each that was accepted.

It is a service outside the fleet: most jobs go to the broker and are accepted by its confirm, some by the outbox of the
transaction that notes them. What was not confirmed is sent again under the same id until it is; every tenth is sent
twice in any case, as a publisher does that never saw the confirm.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any, Final

import psycopg

from smena import outbox
from smena.book import Actor, by_name, send_many
from smena.clock import Deadline
from smena.errors import SmenaError
from smena.job import Job
from smena.lifecycle import Loop
from smena.telemetry.plain_text import error_text
from workers.drills import book
from workers.drills.book import Piece

APART: Final = 1_000_000
"""What else makes jobs in a run gives them numbers from so far above the load's on."""

_LOOK_S: Final = 0.03
_OWN_ATTEMPTS: Final = {"second_try": 2, "ordered_again": 2, "hang": 2}
_NEXT: Final = "SELECT coalesce(max(number), 0) + 1 FROM drill.jobs"
_MADE: Final = """
INSERT INTO drill.jobs (number, job_id, run, actor, duration_ms, attempts, guilty, accepted_at)
SELECT *, CASE WHEN %s THEN clock_timestamp() END
FROM unnest(%s::int[], %s::text[], %s::text[], %s::text[], %s::int[], %s::int[], %s::bool[])
"""
_ACCEPTED: Final = "UPDATE drill.jobs SET accepted_at = clock_timestamp() WHERE number = ANY (%s)"
_ENDED: Final = """
SELECT count(*) FROM drill.jobs
WHERE run = %(run)s AND number < %(end)s
  AND (EXISTS (SELECT FROM drill.effects WHERE effects.run = %(run)s AND effects.number = jobs.number)
       OR EXISTS (SELECT FROM smena.dead_letters WHERE dead_letters.job_id = jobs.job_id))
"""


@dataclass(frozen=True)
class LoadPlan:
    """What is sent: how many jobs are kept outstanding, how long each takes, and which actors take turns."""

    ahead: int = 60
    ms: int = 100
    actors: tuple[str, ...] = ("work", "awork", "work", "work", "second_try", "work", "work")
    outbox_every: int = 4
    twice_every: int = 10
    """0 sends none twice."""
    module: str = book.__name__
    """Where the actors are."""


@dataclass(frozen=True)
class Turn:
    """One job to be made."""

    actor: str
    ms: int
    guilty: bool = False
    more: tuple[object, ...] = ()
    planned: bool = False


@dataclass(frozen=True)
class Made:
    """One job that was made, and whether it is made to end as a dead letter."""

    number: int
    job: Job
    ms: int
    attempts: int
    guilty: bool
    planned: bool
    """Part of the plan's turns; only of these some are sent twice."""


class Load(Loop):
    """Publish until told to finish. `made` counts jobs, ``trouble`` says what it last met."""

    def __init__(self, plan: LoadPlan, run: str, database_url: str) -> None:
        super().__init__("drill-load", self._round, self._note_trouble)
        self._plan, self._run, self._url = plan, run, database_url
        self._connection: psycopg.Connection[Any] | None = None
        self._number, self._end = 0, APART
        self._finishing = threading.Event()
        self._unsent: list[Made] = []
        self._unnoted: list[int] = []
        self._extra: list[Turn] = []
        self._extra_lock = threading.Lock()
        self.made = 0
        self.trouble = ""

    def add(self, actor: str, *more: object, ms: int = 0, count: int = 1, guilty: bool = False) -> None:
        """Send some jobs of another kind too, each once, with ``more`` arguments behind the piece; from any thread.

        ``actor`` is a function of the drills' book, or the whole name of an actor elsewhere, such as ``deploy.greet``.
        """
        with self._extra_lock:
            self._extra.extend([Turn(actor, ms, guilty, more)] * count)

    def finish(self, deadline: Deadline) -> bool:
        """Make no more jobs, and return whether each one made was accepted by the deadline."""
        self._finishing.set()
        two_on = self.tick + 2  # the round that runs now may still be making jobs
        while (self.tick < two_on or self._unsent or self._unnoted or self._extra) and not deadline.passed():
            threading.Event().wait(_LOOK_S)
        return self.stop(deadline) and not (self._unsent or self._unnoted)

    def unconfirmed(self) -> int:
        """Return how many jobs were made, and are not yet confirmed."""
        return len(self._unsent)

    def _round(self, stopping: threading.Event) -> None:
        self._send()
        self._note_accepted()
        if not self._finishing.is_set() or self._extra:
            self._make(self._wanted())
        stopping.wait(_LOOK_S)

    def _wanted(self) -> int:
        if self._finishing.is_set():
            return 0
        [(ended,)] = self._database().execute(_ENDED, {"run": self._run, "end": self._end}).fetchall()
        return int(max(0, self._plan.ahead - (self.made - ended)))

    def _make(self, count: int) -> None:
        """Make jobs and note them; every fourth goes into the outbox of the transaction that notes it."""
        with self._extra_lock:
            extra, self._extra = self._extra, []
        plan, first = self._plan, self.made
        turns = [Turn(plan.actors[(first + n) % len(plan.actors)], plan.ms, planned=True) for n in range(count)]
        made = [self._one(turn) for turn in (*turns, *extra)]
        kept = [one for one in made if plan.outbox_every and one.number % plan.outbox_every == 0 and not one.guilty]
        sent = [one for one in made if one not in kept]
        connection = self._database()
        with connection.transaction():
            self._insert(kept, accepted=True)
            self._insert(sent, accepted=False)
            if kept:
                outbox.add(connection, *(one.job for one in kept))
        self.made += len(made)
        self._unsent += sent

    def _one(self, turn: Turn) -> Made:
        number, self._number = self._number, self._number + 1
        piece = Piece(number, self._run, turn.ms)
        if "." in turn.actor:
            job = by_name(turn.actor, queue=book.QUEUE).message(asdict(piece), *turn.more)
        else:
            declared: Actor[..., Any] = getattr(import_module(self._plan.module), turn.actor)
            job = declared.message(piece, *turn.more)
        return Made(number, job, turn.ms, _OWN_ATTEMPTS.get(turn.actor, 1), turn.guilty, turn.planned)

    def _insert(self, made: Sequence[Made], *, accepted: bool) -> None:
        if made:
            columns: list[list[object]] = [
                [one.number for one in made],
                [one.job.id for one in made],
                [self._run] * len(made),
                [one.job.actor for one in made],
                [one.ms for one in made],
                [one.attempts for one in made],
                [one.guilty for one in made],
            ]
            self._database().execute(_MADE, [accepted, *columns])

    def _send(self) -> None:
        """Send what is not confirmed yet; what is refused stays."""
        unsent = self._unsent
        if not unsent:
            return
        every = self._plan.twice_every
        twice = [one.job for one in unsent if every and one.number % every == 1 and one.planned]
        outcomes = send_many([*(one.job for one in unsent), *twice])[: len(unsent)]
        self._unnoted += [one.number for one, error in zip(unsent, outcomes, strict=True) if error is None]
        self._unsent = [one for one, error in zip(unsent, outcomes, strict=True) if error is not None]
        self._complain(outcomes)

    def _complain(self, outcomes: Sequence[SmenaError | None]) -> None:
        for error in outcomes:
            if error is not None:
                self.trouble = error_text(error)

    def _note_accepted(self) -> None:
        if self._unnoted:
            self._database().execute(_ACCEPTED, [self._unnoted])
            self._unnoted = []

    def _database(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(
                self._url, autocommit=True, connect_timeout=5, application_name="smena-drill-load"
            )
            if self._number == 0:
                [(self._number,)] = self._connection.execute(_NEXT).fetchall()
                self._end = self._number + APART
        return self._connection

    def _note_trouble(self, _name: str, error: BaseException) -> None:
        self.trouble = error_text(error)
        if isinstance(error, psycopg.Error) and self._connection is not None:
            self._connection.close()

    def stop(self, deadline: Deadline) -> bool:
        """End the thread and close its connection."""
        ended = super().stop(deadline)
        if ended and self._connection is not None:
            self._connection.close()
        return ended
