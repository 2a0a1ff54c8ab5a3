"""Hold deliveries between the link thread that brings them and the loop that settles them.

Bounded by the consumer's prefetch: what is here is unacked, so the broker brings no more than that.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from workers.broker.delivery import Delivery

Deliver = Callable[[list[Delivery]], object]


class Inbox:
    """One loop's deliveries; `put` and `knock` from any thread, all else from the loop's."""

    def __init__(self) -> None:
        self._waiting: deque[Delivery] = deque()
        self._cue = threading.Event()

    def put(self, deliveries: Sequence[Delivery]) -> None:
        """Add what the broker brought."""
        self._waiting.extend(deliveries)
        self._cue.set()

    def knock(self) -> None:
        """End a wait for deliveries."""
        self._cue.set()

    def head(self, most: int, most_bytes: int, timeout_s: float) -> list[Delivery]:
        """Return the first deliveries, waiting for one if there is none; they stay here until `done`.

        What came by a channel that is gone is forgotten: the broker brings it again.
        """
        if not self._waiting:
            self._cue.wait(timeout_s)
        self._cue.clear()  # before the look: what comes after it sets the cue again
        while self._waiting and not self._waiting[0].alive():
            self._waiting.popleft()
        return self._fitting(most, most_bytes)

    def done(self, deliveries: Sequence[Delivery]) -> None:
        """Let go of the first deliveries, which `head` returned."""
        for _ in deliveries:
            self._waiting.popleft()

    def _fitting(self, most: int, most_bytes: int) -> list[Delivery]:
        fitting: list[Delivery] = []
        held = 0
        for place in range(min(most, len(self._waiting))):
            delivery = self._waiting[place]
            held += len(delivery.body)
            if fitting and held > most_bytes:
                break
            fitting.append(delivery)
        return fitting


def sort_to(special: Mapping[str, Deliver], rest: Deliver) -> Deliver:
    """Return what hands each delivery to the one who sees to its source, and all others to ``rest``."""

    def deliver(deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            special.get(delivery.queue, rest)([delivery])

    return deliver
