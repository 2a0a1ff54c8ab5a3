"""Hold the consumer back for as long as anybody has a reason to."""

from __future__ import annotations

import threading
from typing import Protocol


class Consuming(Protocol):
    """What takes messages."""

    def pause(self) -> None:
        """Take nothing more for now."""

    def resume(self) -> None:
        """Take messages again."""


class Brake:
    """Reasons not to take messages; the last one that goes lets the consumer go on. For any thread."""

    def __init__(self, consumer: Consuming) -> None:
        self._consumer = consumer
        self._reasons: set[str] = set()
        self._lock = threading.Lock()

    @property
    def is_on(self) -> bool:
        """Whether anybody has a reason now."""
        return bool(self._reasons)

    def hold(self, reason: str, holding: bool) -> None:
        """Hold for that reason, or no longer for it."""
        with self._lock:  # over the call too, so that the consumer hears of changes in their order
            held = bool(self._reasons)
            (self._reasons.add if holding else self._reasons.discard)(reason)
            if bool(self._reasons) != held:
                (self._consumer.pause if holding else self._consumer.resume)()
