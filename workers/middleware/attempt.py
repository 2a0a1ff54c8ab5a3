"""Hold one delivery on its way through the rings."""

from __future__ import annotations

from typing import Any

from smena.context import Context
from smena.job import Job
from workers.broker.delivery import Delivery
from workers.middleware.bound import BoundActor


class Attempt:
    """A job, its actor, and the delivery that carries it.

    ``args`` and ``kwargs`` are what the message holds until the arguments ring has put the checked
    values in their place. ``context`` is set by the tracing ring, ``session`` by the once ring.
    ``began`` becomes true when the actor's own code starts, so that a ring can tell a failure of the
    actor from its own.
    """

    __slots__ = ("actor", "args", "began", "context", "delivery", "job", "kwargs", "session")

    context: Context

    def __init__(self, delivery: Delivery, job: Job, actor: BoundActor) -> None:
        self.delivery = delivery
        self.job = job
        self.actor = actor
        self.args: tuple[Any, ...] = job.args
        self.kwargs: dict[str, Any] = job.kwargs
        self.began = False
        self.session: Any = None

    def again(self) -> Attempt:
        """Return the same delivery as it came, to be run once more from the start."""
        return Attempt(self.delivery, self.job, self.actor)
