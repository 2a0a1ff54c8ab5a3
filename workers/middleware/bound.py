"""Hold an actor as this process runs it: with a whole retry policy and its chain of rings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smena.book import Actor, RetryPolicy
from smena.book.time_limit import TimePolicy

NO_LIMIT = TimePolicy(None, 30.0)


class BoundActor:
    """An actor, the policy it has here, and how a job of it is run.

    ``call`` is the chain for a thread, ``async_call`` the one for the event loop; an actor has the one
    that fits it. They are set once, by `workers/execution/binding.py`, before the first job.
    """

    __slots__ = (
        "accepts", "async_call", "call", "fn", "grace_s", "injects", "is_async", "name", "on_expired", "once",
        "partitions", "policy", "soft_s",
    )  # fmt: skip

    def __init__(self, actor: Actor[..., Any, ...], policy: RetryPolicy, time: TimePolicy = NO_LIMIT) -> None:
        self.name = actor.name
        self.fn: Callable[..., Any] = actor.fn
        self.accepts = actor.accepts
        self.injects = actor.injects
        self.once = actor.once
        self.partitions = actor.partitions
        self.is_async = actor.is_async
        self.on_expired = actor.on_expired
        self.policy = policy
        self.soft_s, self.grace_s = time.soft_s, time.grace_s
        self.call: Any = None
        self.async_call: Any = None

    @property
    def needs_transaction(self) -> bool:
        """Say whether the job runs inside a transaction that a ring opens."""
        wanted = (*self.injects, *(self.on_expired.injects if self.on_expired is not None else ()))
        return self.once is not None or self.partitions is not None or any(each != "context" for each in wanted)
