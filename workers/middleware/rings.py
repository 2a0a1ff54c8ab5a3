"""Put the rings round the actor call.

A ring is built around the next one and is called with an `Attempt`; the outermost gives an `Outcome`.
The order is fixed: tracing > settle > arguments > once > actor. What must hold is a ring; what only
watches subscribes to events and can stop nothing.

Each ring comes in two forms, one for the threads and one for the event loop, and a process composes
each chain once at start.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from workers.middleware.attempt import Attempt
from workers.middleware.outcome import Outcome

Call = Callable[[Attempt], Outcome]
AsyncCall = Callable[[Attempt], Awaitable[Outcome]]


class Ring(Protocol):
    """Something that stands round the rest of an attempt."""

    def around(self, call: Call) -> Call:
        """Return ``call`` with this ring round it, for a thread."""

    def around_async(self, call: AsyncCall) -> AsyncCall:
        """Return ``call`` with this ring round it, for the event loop."""


def compose(rings: Sequence[Ring], innermost: Call) -> Call:
    """Return the chain for threads; the first ring is the outermost."""
    for ring in reversed(rings):
        innermost = ring.around(innermost)
    return innermost


def compose_async(rings: Sequence[Ring], innermost: AsyncCall) -> AsyncCall:
    """Return the chain for the event loop; the first ring is the outermost."""
    for ring in reversed(rings):
        innermost = ring.around_async(innermost)
    return innermost
