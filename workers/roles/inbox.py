"""Hold deliveries between the link thread that brings them and the loop that settles them.

Bounded by the consumer's prefetch: what is here is unacked, so the broker brings no more than that.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from workers.broker.consumer import Delivery


class Inbox:
    """One loop's deliveries; `put` from the link thread, all else from the loop's."""

    def __init__(self) -> None:
        self._waiting: deque[Delivery] = deque()
        self._cue = threading.Event()

    def put(self, deliveries: Sequence[Delivery]) -> None:
        """Add what the broker brought."""
        self._waiting.extend(deliveries)
        self._cue.set()

    def head(self, limit: int, timeout_s: float) -> list[Delivery]:
        """Return the first deliveries, waiting for one if there is none; they stay here until `done`."""
        if not self._waiting:
            self._cue.wait(timeout_s)
        self._cue.clear()  # before the look: what comes after it sets the cue again
        return [self._waiting[place] for place in range(min(limit, len(self._waiting)))]

    def done(self, deliveries: Sequence[Delivery]) -> None:
        """Let go of the first deliveries, which `head` returned; who made them durable has acked them."""
        for _ in deliveries:
            self._waiting.popleft()

    def knock(self) -> None:
        """End a wait for deliveries; from any thread."""
        self._cue.set()
