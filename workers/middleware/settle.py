"""Turn whatever came of the attempt into an outcome and hand it over to be settled.

The ring that nothing passes: every exception, also one raised by another ring, is judged here. It
settles `Done` at once, since the effect's own commit has made it durable; what needs a publish goes
to the `Settler`, off the worker's thread. `Returned` is left to the slot that holds the message.

A coroutine that is cancelled, not by the fleet and not by itself, is a neighbour's victim
(`for task in asyncio.all_tasks(): task.cancel()`): it spends no attempt, three times in a row.

Where settling itself raises, the job is not run again for that: its outcome is kept, and the slot has it settled after
a pause. What cannot be settled three times in a row becomes a dead letter `unsettled`; what is done stays done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from smena.telemetry import events
from smena.telemetry.plain_text import error_text
from workers.middleware.attempt import Attempt
from workers.middleware.job_task import JobTask
from workers.middleware.once import MOST_LOSSES
from workers.middleware.outcome import Dead, Done, Lost, Outcome, Retry, Returned, Snooze
from workers.middleware.rings import AsyncCall, Call
from workers.middleware.unaskable import askable
from workers.middleware.undecided import Undecided
from workers.middleware.verdict import Judge, is_shutdown

CANCELLED: Final = "cancelled"
"""Why a job is run again whose task was cancelled, and not by the fleet."""


UNSETTLED: Final = "unsettled"
"""The reason of a dead letter whose job's own outcome could not be settled; and why such a job waits in its slot."""

MOST_UNSETTLED: Final = 3
"""So often in a row the settling of an outcome may raise."""


class Settler(Protocol):
    """Make outcomes durable that need a message published, then ack."""

    def settle(self, attempt: Attempt, outcome: Retry | Snooze | Dead) -> None:
        """Take over the delivery; never blocks and never raises."""


def ack(attempt: Attempt) -> None:
    """Settle an attempt that is done, where nobody waits to hear of it."""
    attempt.delivery.ack()


class Settle:
    """Judge the attempt and settle it; ``done`` settles what is done, ``failed`` sees each error; neither waits."""

    def __init__(
        self,
        judge: Judge,
        settler: Settler,
        done: Callable[[Attempt], None] = ack,
        failed: Callable[[BaseException], object] = lambda _error: None,
    ) -> None:
        self._judge = judge
        self._settler = settler
        self._done = done
        self._failed = failed
        self._undecided = Undecided()

    def around(self, call: Call) -> Call:
        """Return ``call`` that always ends in an outcome, for a thread."""

        def settled(attempt: Attempt) -> Outcome:
            if attempt.outcome is not None:
                return self._settled(attempt, attempt.outcome)
            try:
                outcome = call(attempt)
            except BaseException as error:  # noqa: BLE001 - the seam: `sys.exit()` in a job ends the job only
                outcome = self._judged(askable(error), attempt)
            return self._settled(attempt, outcome)

        return settled

    def around_async(self, call: AsyncCall) -> AsyncCall:
        """Return ``call`` that always ends in an outcome, for the event loop."""

        async def settled(attempt: Attempt) -> Outcome:
            if attempt.outcome is not None:
                return self._settled(attempt, attempt.outcome)
            try:
                outcome = await call(attempt)
            except BaseException as raised:  # noqa: BLE001 - the seam: `sys.exit()` in a job ends the job only
                error = askable(raised)
                is_spared = _is_of_another(error) and attempt.losses < MOST_LOSSES
                outcome = self._again(error, attempt) if is_spared else self._judged(error, attempt)
            return self._settled(attempt, outcome)

        return settled

    def _again(self, error: BaseException, attempt: Attempt) -> Outcome:
        """Run once more what somebody else on the loop has cancelled: it did nothing wrong.

        Not for ever: it looks the same when a job has its own task cancelled by something that it started.
        """
        attempt.losses += 1
        self._undecided.tell(attempt, CANCELLED, error)
        return Returned(CANCELLED)

    def _judged(self, error: BaseException, attempt: Attempt) -> Outcome:
        try:
            self._failed(error)
        except BaseException as broken:  # noqa: BLE001 - it looks at an error's own properties, the job's code
            events.emit(
                events.HOOK_FAILED, hook="failed", told=f"the error of {attempt.job.id}", error=error_text(broken)
            )
        term = None if attempt.turn is None else attempt.turn.term
        return self._judge.judge(error, attempt.job, attempt.actor.policy, term)

    def _settled(self, attempt: Attempt, outcome: Outcome) -> Outcome:
        try:
            self._settle(attempt, outcome)
        except BaseException as error:  # noqa: BLE001 - the seam: what ran is not run again for a fault of settling
            return self._kept(attempt, outcome, error)
        return outcome

    def _kept(self, attempt: Attempt, outcome: Outcome, error: BaseException) -> Returned:
        """Keep what could not be settled, to be settled again: at last as a dead letter, unless it is done."""
        attempt.unsettled += 1
        tell_unsettled(attempt, type(outcome).__name__.lower(), error)
        gives_up = attempt.unsettled >= MOST_UNSETTLED and isinstance(outcome, Retry | Snooze | Dead)
        attempt.outcome = Dead(UNSETTLED, askable(error)) if gives_up else outcome
        return Returned(UNSETTLED)

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


def tell_unsettled(attempt: Attempt, outcome: str, error: BaseException) -> None:
    """Tell of a job whose settling raised; ``outcome`` is what it came to."""
    events.emit(
        events.JOB_UNSETTLED,
        **attempt.job.facts(attempt.actor.name),
        outcome=outcome,
        times=max(1, attempt.unsettled),
        error=error_text(error),
    )


def _is_of_another(error: BaseException) -> bool:
    """Say whether the task was told to end by somebody who is not the fleet; then take that back."""
    task = asyncio.current_task()
    if not isinstance(error, asyncio.CancelledError) or is_shutdown(error) or task is None:
        return False
    if isinstance(task, JobTask) and task.has_cancelled_itself:
        return False
    was_told = task.cancelling() > 0
    while task.cancelling():
        task.uncancel()  # it was meant for what ran: what the task does from here on is not cancelled
    return was_told
