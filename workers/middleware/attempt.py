"""Hold one delivery on its way through the rings."""

from __future__ import annotations

from typing import Any, Final

from smena.book.actor import ExpiryHandler
from smena.context import Context
from smena.job import Job
from smena.records.turns import Turn
from workers.broker.delivery import Delivery
from workers.middleware.bound import BoundActor
from workers.middleware.outcome import Outcome
from workers.middleware.stopwatch import UNWATCHED

LIMIT: Final = "limit"
"""Why an attempt's time ends: its actor's limit."""


class Attempt:
    """A job, its actor, and the delivery that carries it.

    ``args`` and ``kwargs`` are what the message holds until the arguments ring has put the checked
    values in their place. ``context`` is set by the tracing ring, ``session`` by the once ring.
    ``began`` becomes true when the actor's own code starts, so that a ring can tell a failure of the
    actor from its own. ``due_s`` (monotonic) and ``bound`` say until when it may run and why, where that is limited;
    ``watch`` is that of the seat that runs it. ``losses`` counts how often its connection was lost under it.
    ``target`` is what is called: the actor, or its expiry handler. ``turn`` is under what a job of a partition takes
    effect, and None for any other. ``outcome`` is what it came to where that could not be settled ``unsettled`` times
    in a row: such an attempt is not run again, only settled.
    """

    __slots__ = (
        "actor", "args", "began", "bound", "context", "delivery", "due_s", "job", "kwargs", "losses",
        "outcome", "session", "target", "turn", "unsettled", "watch"
    )  # fmt: skip

    context: Context

    def __init__(self, delivery: Delivery, job: Job, actor: BoundActor, turn: Turn | None = None) -> None:
        self.delivery = delivery
        self.job = job
        self.actor = actor
        self.turn = turn
        self.args: tuple[Any, ...] = job.args
        self.kwargs: dict[str, Any] = job.kwargs
        self.began = False
        self.losses = 0
        self.outcome: Outcome | None = None
        self.unsettled = 0
        self.session: Any = None
        self.due_s: float | None = None
        self.bound = LIMIT
        self.target: BoundActor | ExpiryHandler = actor
        self.watch = UNWATCHED

    def expire(self) -> bool:
        """Begin again with the actor's expiry handler; return whether there is one that was not called yet."""
        handler = self.actor.on_expired
        if handler is None or self.target is handler:
            return False
        self.args, self.kwargs = self.job.args, self.job.kwargs
        self.began, self.session, self.target = False, None, handler
        return True

    def again(self) -> Attempt:
        """Return the same delivery as it came, to be run once more from the start, or just settled if it has run."""
        again = Attempt(self.delivery, self.job, self.actor, self.turn)
        again.losses, again.outcome, again.unsettled = self.losses, self.outcome, self.unsettled
        return again
