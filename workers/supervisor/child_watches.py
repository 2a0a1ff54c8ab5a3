"""One watch for each child, begun when the child is first seen and dropped with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from smena.clock import Clock
from workers.process.standstill import LOOK_S
from workers.supervisor.child import SupervisedChild
from workers.supervisor.crew import Crew

W = TypeVar("W")


class ChildWatches(Generic[W]):
    """The watches that ``begin`` makes, a few looks a second."""

    def __init__(self, crew: Crew, begin: Callable[[SupervisedChild], W], clock: Clock) -> None:
        self._crew = crew
        self._begin = begin
        self._clock = clock
        self._looked_s = clock.monotonic()
        self._watches: dict[SupervisedChild, W] = {}

    def due(self) -> Iterator[tuple[SupervisedChild, W]]:
        """Yield each child that lives with its watch, if it is time to look again; else nothing."""
        now_s = self._clock.monotonic()
        if now_s - self._looked_s < LOOK_S:
            return
        self._looked_s = now_s
        watched = [child for child in self._crew.children if child.pid and not child.killed]
        self._watches = {child: self._watches.get(child) or self._begin(child) for child in watched}
        yield from self._watches.items()
