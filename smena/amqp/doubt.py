"""Judge by nacks and silence whether a publishing channel, or its whole connection, may be used on.

A node that lives can keep a channel that is of no use any more. RabbitMQ's channel holds a client for each quorum queue
that it publishes to. Seen on 3.10.8 after the death of a queue's leader: a client made before the successor was known
asks the dead node for ever and answers each publish with a nack (mended in 3.12.5); others wait for a leader and answer
nothing. Both are cured by a new channel, for that begins with new clients; where a channel is not answered at all, its
process is stuck, and the next address is the better bet. Our queues have no length limit, so a nack is never the
queue's own word.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from smena.clock import Clock

_APART_S: Final = 1.0
_APART_CAP_S: Final = 30.0


class Remedy(Enum):
    """What is to be done."""

    NOTHING = "nothing"
    CHANNEL = "a new channel"
    CONNECTION = "another connection"


class Doubt:
    """What one publisher's channels have shown. New channels are had one second apart at first, then longer and longer.

    Else a queue that refuses everything would cost all others their channel at every publish.
    """

    def __init__(self, timeout_s: float, clock: Clock) -> None:
        self._timeout_s = timeout_s
        self._clock = clock
        self._opened_s = self._answered_s = clock.monotonic()
        self._not_before_s = self._answered_s
        self._apart_s = _APART_S / 2

    def opened(self) -> None:
        """Begin with a new channel."""
        self._opened_s = self._answered_s = self._clock.monotonic()

    def asked(self) -> None:
        """Note that from now on an answer is owed."""
        self._answered_s = self._clock.monotonic()

    def answered(self) -> None:
        """Note that the channel answered something."""
        self._answered_s = self._clock.monotonic()

    def refused(self) -> Remedy:
        """Judge after a nack."""
        now = self._clock.monotonic()
        if now < self._not_before_s:
            return Remedy.NOTHING
        calm = now >= self._not_before_s + _APART_CAP_S
        self._apart_s = _APART_S if calm else min(self._apart_s * 2, _APART_CAP_S)
        self._not_before_s = now + self._apart_s
        return Remedy.CHANNEL

    def silent(self) -> Remedy:
        """Judge after a publish that was sent had no answer by its deadline.

        A channel that was open for half that time had its chance. Others may have had their answers by it; where none
        came for as long, the node itself is in doubt.
        """
        chance_s = self._clock.monotonic() - self._timeout_s / 2
        if self._answered_s <= chance_s:
            return Remedy.CONNECTION
        return self.refused() if self._opened_s <= chance_s else Remedy.NOTHING
