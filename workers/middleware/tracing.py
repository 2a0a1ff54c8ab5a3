"""Give the attempt its context: what the actor sees, and what its own sends inherit.

The outermost ring. While it is entered, `smena.context.current()` is this attempt's, so that jobs
sent from inside carry the request id and the trace on.
"""

from __future__ import annotations

from collections.abc import Callable

from smena.context import Context, running
from workers.middleware.attempt import Attempt
from workers.middleware.outcome import Outcome
from workers.middleware.rings import AsyncCall, Call

MakeContext = Callable[[Attempt], Context]


class Tracing:
    """Make the context and hold it while the rest runs."""

    def __init__(self, make_context: MakeContext) -> None:
        self._make_context = make_context

    def around(self, call: Call) -> Call:
        """Return ``call`` inside the attempt's context, for a thread."""
        make_context = self._make_context

        def traced(attempt: Attempt) -> Outcome:
            attempt.context = context = make_context(attempt)
            with running(context):
                return call(attempt)

        return traced

    def around_async(self, call: AsyncCall) -> AsyncCall:
        """Return ``call`` inside the attempt's context, for the event loop."""
        make_context = self._make_context

        async def traced(attempt: Attempt) -> Outcome:
            attempt.context = context = make_context(attempt)
            with running(context):
                return await call(attempt)

        return traced
