"""Run the shard jobs of batches: take slices, work them, and let others have the slot when the turn is over.

A shard job is an ordinary job on the queue of its batch's actor; every worker knows its actor. It takes slices until
its turn is over, then queues up again behind what waits there (a snooze that costs no attempt), so a batch of hours
starves nobody. When there is nothing to take it looks whether the batch is at its end, ends it if it is, or comes back
when something may be free: the lease of a worker that died, or an item that waits for its next attempt.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Protocol

import sqlalchemy as sa
from pydantic import Field

from sharding import claims, progress
from sharding.claims import Piece
from smena.book import Book
from smena.book.retry import RetryPolicy
from smena.clock import Clock
from smena.errors import ClaimLost, Misdeclared, Transient, UnknownActor
from smena.guarantees.once import GuardRefused
from smena.store.database import Database
from smena.store.tables import batches as table
from smena.telemetry import events
from smena.telemetry.metric import BATCH_ITEMS, STALE_WRITES
from smena.telemetry.plain_text import error_text
from smena.telemetry.tally import Board
from workers.execution.appetite import Appetite
from workers.execution.batch_mode import MODES, BatchMode
from workers.execution.claim_keeper import ClaimKeeper, HeldClaim
from workers.execution.item_losses import ItemLosses
from workers.execution.slice_work import Finish, Finishing, Recipe, Remains
from workers.middleware.actor import call_actor
from workers.middleware.arguments import Arguments
from workers.middleware.attempt import Attempt
from workers.middleware.bound import BoundActor
from workers.middleware.once import OnceRing
from workers.middleware.outcome import DONE, YIELDED, Outcome, Returned, Snooze
from workers.middleware.rings import Ring, compose
from workers.middleware.time_limit import TimeLimit
from workers.middleware.tracing import MakeContext
from workers.middleware.verdict import Judge

POLICY: Final = RetryPolicy(
    attempts=1_000_000, base_s=1.0, cap_s=30.0, total_age_s=3650 * 86_400, unexpected_attempts=10
)
"""A shard job that fails is tried again for as long as its batch may take."""

SHORTEST_WAIT_S: Final = 0.2
TOUCH_S: Final = 0.02
"""Pause where slices are free by their time and were locked by another claimer at that moment."""

TROUBLE_S: Final = 2.0
"""Mean wait where the database or a guard cannot go on now."""

UNKNOWN_WAIT_S: Final = 15.0
"""Wait where this worker does not know the batch's actor, or knows it as none of a batch; another one may."""

_OPENED: Final = sa.select(
    table.c.actor, table.c.queue, table.c.per, table.c.mode, table.c.kwargs, table.c.largest_slice, table.c.on_dead
)
"""How a batch was opened."""

BatchId = Annotated[int, Field(ge=1, le=2**63 - 1)]
Epoch = Annotated[int, Field(ge=0, le=2**31 - 1)]
"""What the columns hold: a job that names another is no shard job, and no retry makes it one."""


class BatchSettings(Protocol):
    """What shard jobs want of the settings."""

    @property
    def turn_s(self) -> float: ...
    @property
    def slice_s(self) -> float: ...
    @property
    def largest_slice(self) -> int: ...


@dataclass(slots=True)
class _Course:
    """What this process knows of a batch: how to work it, how much to take, where to look first, what was lost."""

    recipe: Recipe
    mode: BatchMode
    appetite: Appetite
    start: int = 0
    losses: ItemLosses = field(default_factory=ItemLosses)


class Shards:
    """The shard jobs of one process, in all its threads."""

    def __init__(
        self,
        database: Database,
        keeper: ClaimKeeper,
        actors: Mapping[str, BoundActor],
        settings: BatchSettings,
        *,
        once: OnceRing,
        judge: Judge,
        make_context: MakeContext,
        board: Board,
        clock: Clock,
        ending: Callable[[], bool],
    ) -> None:
        self._database = database
        self._keeper = keeper
        self._actors = actors
        self._settings = settings
        self._once = once
        self._judge = judge
        self._make_context = make_context
        self._board = board
        self._clock = clock
        self._ending = ending
        self._courses: dict[int, _Course] = {}

    def bound(self, outer: list[Ring]) -> dict[str, BoundActor]:
        """Return the actors of shard jobs by name, inside the rings that give them a context and settle them."""
        book = Book("smena")

        @book.actor()
        def shard(batch: BatchId, epoch: Epoch) -> None:
            """Stand for the shard jobs; what they do is `run`."""

        @book.actor()
        def keyed_shard(batch: BatchId, epoch: Epoch) -> None:
            """Stand for those by partition; what they do is `run` too."""

        actors = {actor.name: BoundActor(actor, POLICY) for actor in (shard, keyed_shard)}
        for actor in actors.values():
            actor.call = compose([*outer, Arguments()], self.run)
        return actors

    def run(self, attempt: Attempt) -> Outcome:
        """Have a turn at the batch that the job names."""
        batch, epoch = attempt.args
        try:
            course = self._course(batch)
            return DONE if course is None else self._turn(course, epoch, attempt)
        except (UnknownActor, Misdeclared) as error:
            return Snooze(UNKNOWN_WAIT_S, error.code)
        except Transient as error:
            return _trouble(error.code)
        except sa.exc.ProgrammingError:  # a right or a table of ours is away: an item's errors are judged before
            return _trouble(GuardRefused.code)

    def _turn(self, course: _Course, epoch: int, attempt: Attempt) -> Outcome:
        over_s = self._clock.monotonic() + self._settings.turn_s
        course.start = 0  # what was abandoned meanwhile may lie behind
        while not self._ending():
            held = self._take(course, epoch, attempt.job.id)
            outcome = self._nothing(course, epoch) if held is None else self._worked(course, held, attempt)
            if outcome is not None:
                return outcome
            if self._clock.monotonic() >= over_s:
                return Snooze(0.0, YIELDED)
        return Returned("shutdown")

    def _take(self, course: _Course, epoch: int, job_id: str) -> HeldClaim | None:
        """Take what comes behind the last claim, over no dead rows of what was finished; then from the beginning."""
        batch, mode, wish, start = course.recipe.batch, course.mode, course.appetite.wish(), course.start
        held = self._keeper.take(job_id, batch, epoch, wish, start, mode.take)
        if held is None and start:
            course.start = 0
            held = self._keeper.take(job_id, batch, epoch, wish, 0, mode.take)
        if held is not None:
            course.start = mode.behind(held.claim)
        return held

    def _nothing(self, course: _Course, epoch: int) -> Outcome | None:
        """Say how to go on where nothing could be taken: end, wait in the queue, or (None) look again at once."""
        batch = course.recipe.batch
        with self._database.transaction() as connection:
            outlook = course.mode.outlook(connection, batch, epoch)
        if not outlook.goes_on:
            self._courses.pop(batch, None)
            return DONE
        if not outlook.is_open:
            self._complete(batch)
            return DONE
        if outlook.wait_s <= 0:
            time.sleep(TOUCH_S)
            return None
        return Snooze(max(SHORTEST_WAIT_S, min(outlook.wait_s, self._keeper.lease_s)), "no slice is free")

    def _complete(self, batch: int) -> None:
        with self._database.transaction() as connection:
            end = progress.complete(connection, batch)
        if end is not None:
            events.emit(events.BATCH_COMPLETED, batch=batch, total=end.total, done=end.done, dead=end.dead)
            self._courses.pop(batch, None)

    # --- one claim --------------------------------------------------------------------------------

    def _worked(self, course: _Course, held: HeldClaim, attempt: Attempt) -> Outcome | None:
        began_s = self._clock.monotonic()
        stop_s = began_s + max(self._settings.turn_s, 2 * self._settings.slice_s)
        work = course.mode.work(
            course.recipe,
            held,
            attempt,
            losses=course.losses,
            judge=self._judge,
            make_context=self._make_context,
            goes_on=lambda: self._clock.monotonic() < stop_s and not self._ending(),
            alone=self._alone,
        )
        try:
            remains = work.run(lambda piece: self._marked(course, piece))
            self._finish(course, held, remains)
        except ClaimLost as error:
            self._lost(held, error)
            return None
        finally:
            self._keeper.drop(held)
        self._learn(course, held, remains, self._clock.monotonic() - began_s)
        return None if remains.pause is None else self._paused(remains.pause)

    def _finish(self, course: _Course, held: HeldClaim, remains: Remains) -> None:
        if remains.is_finished:
            return
        with self._database.transaction() as connection:
            remains.blocked = course.mode.finish(connection, held.claim, remains)
        if remains.blocked:
            where = {"batch": held.claim.batch, "partition": held.claim.partition}
            events.emit(events.BATCH_BLOCKED, **where, items=remains.blocked)

    def _alone(self, finish: Finish) -> None:
        with self._database.session() as session:
            finish(session)
            session.commit()

    def _marked(self, course: _Course, piece: Piece) -> set[int]:
        with self._database.transaction() as connection:
            return claims.marked(connection, course.recipe.batch, piece)

    def _learn(self, course: _Course, held: HeldClaim, remains: Remains, seconds: float) -> None:
        actor, claim = course.recipe.actor.name, held.claim
        again = sum(run.last - run.first + 1 for run in remains.again)
        tried = remains.done + len(remains.dead)
        course.appetite.learn(tried, seconds, claim.bytes * max(tried, 1) // max(claim.size, 1))
        for outcome, count in (("done", remains.done), ("dead", len(remains.dead) + remains.blocked), ("again", again)):
            if count:
                self._board.add(BATCH_ITEMS, actor, outcome, by=count)

    def _lost(self, held: HeldClaim, error: ClaimLost) -> None:
        claim = held.claim
        self._board.add(STALE_WRITES, "batch")
        events.emit(
            events.BATCH_CLAIM_LOST,
            batch=claim.batch,
            slices=len(claim.pieces),
            items=claim.size,
            error=error_text(error),
        )

    def _paused(self, pause: Returned) -> Outcome:
        return pause if self._ending() else _trouble(pause.why)

    # --- what is known of a batch -----------------------------------------------------------------

    def _course(self, batch: int) -> _Course | None:
        """Return what is known of the batch, read once; None where there is no such batch."""
        known = self._courses.get(batch)
        if known is not None:
            return known
        with self._database.transaction() as connection:
            row = connection.execute(_OPENED.where(table.c.id == batch)).one_or_none()
        if row is None:
            return None
        largest = min(row.largest_slice or self._settings.largest_slice, self._settings.largest_slice)
        appetite = Appetite(largest, self._settings.slice_s)
        return self._courses.setdefault(batch, _Course(self._recipe(batch, row), MODES[row.mode], appetite))

    def _recipe(self, batch: int, row: Any) -> Recipe:
        actor = self._actors.get(row.actor)
        if actor is None:
            raise UnknownActor(actor=row.actor)
        if actor.is_async or actor.partitions is not None:  # since the batch was opened, which refuses such
            raise Misdeclared("the actor of a batch is plain and has no order", actor=row.actor, batch=batch)
        rings: list[Ring] = [TimeLimit(self._clock), Arguments()]
        if actor.needs_transaction:
            rings += [self._once.whole(), Finishing()]
        call = compose(rings, call_actor)
        commits = actor.needs_transaction
        return Recipe(batch, row.queue, actor, call, row.per == "slice", row.kwargs, commits, row.on_dead)


def _trouble(why: str) -> Snooze:
    return Snooze(TROUBLE_S * random.uniform(0.5, 1.5), why)  # noqa: S311 - jitter
