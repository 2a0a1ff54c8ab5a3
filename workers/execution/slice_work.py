"""Work the items of one claim, and say what is left of them.

Two ways to finish. An actor that has a transaction (`once`, or a session) commits each item's effect together with its
mark, or a whole slice's together with its finish (`per="slice"`); the fence is the last statement before that commit.
All other items are finished together after the slice. One bad item never fails the others: where a slice is given whole
to the actor and fails, it is halved until the bad ones stand alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy.orm import Session

from sharding import claims
from sharding.claims import Again, DeadItem, Piece
from sharding.keyed_claims import Block
from sharding.reading import UnreadableItem
from smena.book.partitioning import OnDead
from smena.context import running
from smena.errors import ClaimLost, Transient
from smena.job import Job
from smena.telemetry import events
from smena.telemetry.plain_text import error_text
from workers.execution.claim_keeper import HeldClaim
from workers.execution.item_losses import ItemLosses
from workers.middleware.attempt import Attempt
from workers.middleware.bound import BoundActor
from workers.middleware.evidence import of_error
from workers.middleware.once import MOST_LOSSES as MOST_SPARED
from workers.middleware.outcome import Dead, Done, Outcome, Retry, Returned, Snooze
from workers.middleware.rings import AsyncCall, Call
from workers.middleware.tracing import MakeContext
from workers.middleware.unaskable import askable
from workers.middleware.verdict import Judge

MOST_LOSSES: Final = 3
"""An item that was worked alone and was struck for so often is dead: it kills whoever runs it."""

CRASHED: Final = "crashed"

Finish = Callable[[Session], None]


class ItemAttempt(Attempt):
    """An item, or several, on the way through the actor's rings, carried by a shard job's delivery.

    ``finish`` is what ends it inside its own transaction; ``finished`` says that it was called.
    """

    __slots__ = ("finish", "finished")

    def __init__(self, carrier: Attempt, job: Job, actor: BoundActor, finish: Finish | None, losses: int) -> None:
        super().__init__(carrier.delivery, job, actor)
        self.losses = losses
        self.watch = carrier.watch
        self.finish = finish
        self.finished = False


class Finishing:
    """The ring that ends an item in its own transaction, after all that the actor has written."""

    def around(self, call: Call) -> Call:
        """Return ``call`` with what ends the item behind it."""

        def finished(attempt: Attempt) -> Outcome:
            outcome = call(attempt)
            if isinstance(attempt, ItemAttempt) and attempt.finish is not None:
                attempt.session.flush()
                attempt.finish(attempt.session)
                attempt.finished = True
            return outcome

        return finished

    def around_async(self, call: AsyncCall) -> AsyncCall:
        """Return ``call`` as it is: the actors of batches are plain."""
        return call


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the items of one batch are worked: by which actor, through which rings, given how.

    ``commits_items`` says that the actor has a transaction of its own, ``on_dead`` what follows the death of a key's
    item, where items have keys.
    """

    batch: int
    queue: str
    actor: BoundActor
    call: Call
    per_slice: bool
    kwargs: dict[str, Any]
    commits_items: bool
    on_dead: OnDead | None = None


@dataclass(slots=True)
class Remains:
    """What a claim came to so far: items for another time, dead ones, what these block, how many are done.

    ``blocked`` is how many were found behind ``blocks`` at the finish.
    ``is_finished`` says that the claim was finished in the actor's own transaction; ``pause`` why the worker cannot go
    on now.
    """

    again: list[Again] = field(default_factory=list)
    dead: list[DeadItem] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    blocked: int = 0
    done: int = 0
    is_finished: bool = False
    pause: Returned | None = None

    def keep(self, piece: Piece, numbers: Sequence[int]) -> None:
        """Leave items as they were."""
        self.again.extend(Again(number, number, piece.attempt) for number in numbers)


class SliceWork:
    """The work on one claim by one shard job.

    ``goes_on`` says whether there is time for another item; ``alone`` does a finish in a transaction of its own.
    ``losses`` are those of the batch's items in this process.
    """

    def __init__(
        self,
        recipe: Recipe,
        held: HeldClaim,
        carrier: Attempt,
        *,
        losses: ItemLosses,
        judge: Judge,
        make_context: MakeContext,
        goes_on: Callable[[], bool],
        alone: Callable[[Finish], None],
    ) -> None:
        self._recipe = recipe
        self._held = held
        self._carrier = carrier
        self._losses = losses
        self._judge = judge
        self._make_context = make_context
        self._goes_on = goes_on
        self._alone = alone
        self.remains = Remains()

    def run(self, marked: Callable[[Piece], set[int]]) -> Remains:
        """Work all items that are not ``marked`` as done, as long as the claim is ours and there is time.

        Raises `ClaimLost` when the claim is not ours any more.
        """
        pieces = self._held.claim.pieces
        left = {piece.id: self._left(piece, marked) for piece in pieces}
        if self._recipe.per_slice:
            self._run_whole(pieces, left)
        else:
            for piece in pieces:
                self._run_each(piece, left[piece.id])
        return self.remains

    def _left(self, piece: Piece, marked: Callable[[Piece], set[int]]) -> list[int]:
        done = marked(piece) if self._recipe.commits_items else set()
        self.remains.done += len(done)
        return self._readable(piece, [number for number in range(piece.first, piece.last + 1) if number not in done])

    def _readable(self, piece: Piece, numbers: list[int]) -> list[int]:
        """Bury the items that cannot be read; return the others."""
        readable = []
        for number in numbers:
            item = piece.items[number - piece.first]
            if isinstance(item, UnreadableItem):
                self._bury(piece, number, item.code, item)
            else:
                readable.append(number)
        return readable

    # --- item by item -----------------------------------------------------------------------------

    def _run_each(self, piece: Piece, numbers: list[int]) -> None:
        if numbers and kills(piece):
            self._bury(piece, piece.first, CRASHED, None)
            return
        commits, remains = self._recipe.commits_items, self.remains
        for place, number in enumerate(numbers):
            if not self._goes_on() or remains.pause is not None:
                remains.keep(piece, numbers[place:])
                return
            item = piece.items[number - piece.first]
            finish = self._marking(piece, (number,)) if commits else None
            outcome = self._call(piece, (number,), item, finish)
            if type(outcome) is Done:
                remains.done += 1
            else:
                self._failed(piece, number, outcome)

    # --- a slice at a time ------------------------------------------------------------------------

    def _run_whole(self, pieces: Sequence[Piece], left: dict[int, list[int]]) -> None:
        whole = [(piece, number) for piece in pieces for number in left[piece.id]]
        if len(whole) > 1:
            items = [piece.items[number - piece.first] for piece, number in whole]
            finish = self._finishing() if self._recipe.commits_items else None
            numbers = [number for _, number in whole]
            is_spared = self._losses.of(numbers) < MOST_SPARED
            outcome = self._call(whole[0][0], numbers, items, finish)
            if type(outcome) is Done:
                self.remains.done += len(whole)
                self.remains.is_finished = finish is not None
                return
            is_passing = is_spared and isinstance(outcome, Retry) and self._is_passing(outcome)
            if is_passing or isinstance(outcome, Returned | Snooze):
                for piece, number in whole:
                    self._failed(piece, number, outcome)
                return
        for piece in pieces:
            self._halve(piece, left[piece.id], is_known_bad=len(whole) > 1 and len(pieces) == 1)

    def _halve(self, piece: Piece, numbers: list[int], *, is_known_bad: bool) -> None:
        """Give the actor some items of a piece; where that fails, each half."""
        if not numbers:
            return
        if not self._goes_on() or self.remains.pause is not None:
            self.remains.keep(piece, numbers)
            return
        if kills(piece):
            self._bury(piece, piece.first, CRASHED, None)
            return
        if not is_known_bad:
            items = [piece.items[number - piece.first] for number in numbers]
            finish = self._marking(piece, numbers) if self._recipe.commits_items else None
            outcome = self._call(piece, numbers, items, finish)
            if type(outcome) is Done:
                self.remains.done += len(numbers)
                return
            if len(numbers) == 1:
                self._failed(piece, numbers[0], outcome)
                return
        half = len(numbers) // 2
        self._halve(piece, numbers[:half], is_known_bad=False)
        self._halve(piece, numbers[half:], is_known_bad=False)

    def _is_passing(self, outcome: Retry) -> bool:
        """Say whether it is the world that failed, not an item."""
        return isinstance(self._judge.classify(outcome.error), Transient)

    # --- one call ---------------------------------------------------------------------------------

    def _marking(self, piece: Piece, numbers: Sequence[int]) -> Finish:
        return lambda session: claims.mark(session, piece, numbers)

    def _finishing(self) -> Finish:
        return lambda session: claims.finish(session, self._held.claim, dead=self.remains.dead)

    def _call(self, piece: Piece, numbers: Sequence[int], argument: Any, finish: Finish | None) -> Outcome:
        if not self._held.is_ours():
            raise ClaimLost(batch=self._recipe.batch, item=numbers[0], term=piece.term)
        recipe, carrier = self._recipe, self._carrier.job
        job = Job(
            actor=recipe.actor.name,
            queue=recipe.queue,
            args=(argument,),
            kwargs=recipe.kwargs,
            id=f"batch-{recipe.batch}-{numbers[0]}",
            attempt=piece.attempt,
            request_id=carrier.request_id,
            traceparent=carrier.traceparent,
        )
        losses = self._losses.of(numbers)
        attempt = ItemAttempt(self._carrier, job, recipe.actor, finish, losses)
        attempt.context = context = self._make_context(attempt)
        try:
            with running(context):
                outcome = recipe.call(attempt)
        except ClaimLost:
            raise
        except BaseException as error:  # noqa: BLE001 - the seam: whatever an item raises is the item's
            outcome = self._judge.judge(askable(error), job, recipe.actor.policy)
        self._count(numbers, outcome, is_lost=attempt.losses > losses)
        if finish is not None and type(outcome) is Done and not attempt.finished:
            self._alone(finish)  # its `once` key was found: the effect is there, and nothing says that the item is done
        return outcome

    def _count(self, numbers: Sequence[int], outcome: Outcome, *, is_lost: bool) -> None:
        """Count the losses in a row; where several failed nothing is known of each, and each is called again."""
        if is_lost:
            self._losses.add(numbers)
        elif type(outcome) is Done or (len(numbers) == 1 and type(outcome) is not Returned):
            self._losses.forget(numbers)

    def _failed(self, piece: Piece, number: int, outcome: Outcome) -> None:
        match outcome:
            case Retry(delay_s, _):
                self.remains.again.append(Again(number, number, piece.attempt + 1, delay_s))
            case Snooze(delay_s, _):
                self.remains.again.append(Again(number, number, piece.attempt, delay_s))
            case Returned():
                self.remains.keep(piece, [number])
                self.remains.pause = outcome
            case Dead(reason, error):
                self._bury(piece, number, reason, error)
            case _:
                raise ValueError(f"an item cannot come to {outcome!r}")

    def _bury(self, piece: Piece, number: int, reason: str, error: BaseException | None) -> None:
        told = of_error(error, reason)
        self.remains.dead.append(
            DeadItem(
                number,
                piece.attempt,
                reason,
                told.error_class or None,
                told.error_text or None,
                told.traceback or None,
                told.fingerprint,
            )
        )
        events.emit(
            events.BATCH_ITEM_DEAD,
            batch=self._recipe.batch,
            item=number,
            actor=self._recipe.actor.name,
            attempts=piece.attempt,
            reason=reason,
            error="" if error is None else error_text(error),
        )


def kills(piece: Piece) -> bool:
    """Say whether the one item of a piece ended so many workers that it is not to be run again."""
    return piece.first == piece.last and piece.losses >= MOST_LOSSES
