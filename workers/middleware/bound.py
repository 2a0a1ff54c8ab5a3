"""Hold an actor as this process runs it: with a whole retry policy and its chain of rings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smena.book import Actor, RetryPolicy


class BoundActor:
    """An actor, the policy it has here, and how a job of it is run.

    ``call`` is the chain for a thread, ``async_call`` the one for the event loop; an actor has the one
    that fits it. They are set once, by `workers/execution/binding.py`, before the first job.
    """

    __slots__ = ("accepts", "async_call", "call", "fn", "injects", "is_async", "name", "once", "policy")

    def __init__(self, actor: Actor[..., Any, ...], policy: RetryPolicy) -> None:
        self.name = actor.name
        self.fn: Callable[..., Any] = actor.fn
        self.accepts = actor.accepts
        self.injects = actor.injects
        self.once = actor.once
        self.is_async = actor.is_async
        self.policy = policy
        self.call: Any = None
        self.async_call: Any = None

    @property
    def needs_transaction(self) -> bool:
        """Say whether the job runs inside a transaction that a ring opens."""
        return self.once is not None or any(wanted != "context" for wanted in self.injects)
