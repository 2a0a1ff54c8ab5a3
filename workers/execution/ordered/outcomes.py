"""Send each outcome where it is made durable: a partition's job to its desk, any other's to the settler."""

from __future__ import annotations

from smena.records.settlements import Settled
from workers.execution.nextmessage import NextMessages
from workers.execution.ordered.groups import Desks
from workers.middleware.attempt import Attempt
from workers.middleware.outcome import Dead, Retry, Snooze


class Outcomes:
    """What the rings, the recall and the quarantine hand their outcomes to; for all threads."""

    def __init__(self, messages: NextMessages, desks: Desks) -> None:
        self._messages = messages
        self._desks = desks

    def settle(self, attempt: Attempt, outcome: Retry | Snooze | Dead) -> None:
        """Take over a delivery; never waits, never raises."""
        if attempt.turn is None:
            self._messages.settle(attempt, outcome)
        else:
            self._desks.settle(attempt, outcome)

    def resume(self, attempt: Attempt, settled: Settled) -> None:
        """Settle a second copy of an attempt with the message that the first one stored."""
        self._messages.resume(attempt, settled)
