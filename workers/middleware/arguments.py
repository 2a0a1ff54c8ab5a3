"""Hold the arguments against the actor's annotations before anything is opened for it."""

from __future__ import annotations

from workers.middleware.attempt import Attempt
from workers.middleware.outcome import Outcome
from workers.middleware.rings import AsyncCall, Call


class Arguments:
    """Replace what the message holds by the validated values.

    Raises `InvalidArguments`, which is permanent: no retry makes a wrong argument right.
    """

    def around(self, call: Call) -> Call:
        """Return ``call`` with validated arguments, for a thread."""

        def validated(attempt: Attempt) -> Outcome:
            attempt.args, attempt.kwargs = attempt.actor.accepts(attempt.args, attempt.kwargs)
            return call(attempt)

        return validated

    def around_async(self, call: AsyncCall) -> AsyncCall:
        """Return ``call`` with validated arguments, for the event loop."""

        async def validated(attempt: Attempt) -> Outcome:
            attempt.args, attempt.kwargs = attempt.actor.accepts(attempt.args, attempt.kwargs)
            return await call(attempt)

        return validated
