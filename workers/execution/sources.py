"""Join the consumer of plain queues with those of ordered ones, so that the worker has one source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from workers.execution.worker import Source


class Consuming(Source, Protocol):
    """A source that can be held."""

    def pause(self) -> None:
        """Take nothing more for now."""

    def resume(self) -> None:
        """Take messages again."""


class Partitioned(Protocol):
    """Ordered queues: their drain is that of a runner."""

    def start(self) -> None:
        """Begin to take messages."""

    def pause(self) -> None:
        """Take nothing more for now."""

    def resume(self) -> None:
        """Take messages again."""


class Sources:
    """The plain queues, and beside them the ordered ones."""

    def __init__(self, plain: Consuming, partitioned: Sequence[Partitioned]) -> None:
        self._plain = plain
        self._partitioned = tuple(partitioned)

    def start(self) -> None:
        """Begin to take messages."""
        self._plain.start()
        for source in self._partitioned:
            source.start()

    def cancel(self, done: Callable[[], object]) -> None:
        """Take no more of the plain queues for ever; the ordered ones give up theirs one by one, as a runner."""
        self._plain.cancel(done)

    def flush(self, done: Callable[[], object]) -> None:
        """Tell the broker all that was settled; ``done`` is called when that is sent."""
        self._plain.flush(done)

    def pause(self) -> None:
        """Take nothing more for now."""
        self._plain.pause()
        for source in self._partitioned:
            source.pause()

    def resume(self) -> None:
        """Take messages again."""
        self._plain.resume()
        for source in self._partitioned:
            source.resume()
