"""Turn whatever came of the attempt into an outcome and hand it over to be settled.

The ring that nothing passes: every exception, also one raised by another ring, is judged here. It
settles `Done` at once, since the effect's own commit has made it durable; what needs a publish goes
to the `Settler`, off the worker's thread. `Returned` is left to the slot that holds the message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from workers.middleware.attempt import Attempt
from workers.middleware.outcome import Dead, Done, Lost, Outcome, Retry, Returned, Snooze
from workers.middleware.rings import AsyncCall, Call
from workers.middleware.verdict import Judge


class Settler(Protocol):
    """Make outcomes durable that need a message published, then ack."""

    def settle(self, attempt: Attempt, outcome: Retry | Snooze | Dead) -> None:
        """Take over the delivery; never blocks and never raises."""


def ack(attempt: Attempt) -> None:
    """Settle an attempt that is done, where nobody waits to hear of it."""
    attempt.delivery.ack()


class Settle:
    """Judge the attempt and settle it; ``done`` settles what is done, and never waits."""

    def __init__(self, judge: Judge, settler: Settler, done: Callable[[Attempt], None] = ack) -> None:
        self._judge = judge
        self._settler = settler
        self._done = done

    def around(self, call: Call) -> Call:
        """Return ``call`` that always ends in an outcome, for a thread."""

        def settled(attempt: Attempt) -> Outcome:
            try:
                outcome = call(attempt)
            except BaseException as error:  # noqa: BLE001 - the seam: `sys.exit()` in a job ends the job only
                outcome = self._judged(error, attempt)
            self._settle(attempt, outcome)
            return outcome

        return settled

    def around_async(self, call: AsyncCall) -> AsyncCall:
        """Return ``call`` that always ends in an outcome, for the event loop."""

        async def settled(attempt: Attempt) -> Outcome:
            try:
                outcome = await call(attempt)
            except BaseException as error:  # noqa: BLE001 - the seam: `sys.exit()` in a job ends the job only
                outcome = self._judged(error, attempt)
            self._settle(attempt, outcome)
            return outcome

        return settled

    def _judged(self, error: BaseException, attempt: Attempt) -> Outcome:
        term = None if attempt.turn is None else attempt.turn.term
        return self._judge.judge(error, attempt.job, attempt.actor.policy, term)

    def _settle(self, attempt: Attempt, outcome: Outcome) -> None:
        match outcome:
            case Done():
                self._done(attempt)
            case Retry() | Snooze() | Dead():
                self._settler.settle(attempt, outcome)
            case Returned():
                return
            case Lost() if attempt.turn is not None:
                attempt.delivery.give_back()  # it is the next owner's to run: our ack could still reach the broker
            case _:
                attempt.delivery.ack()
