"""Sample what no single process knows: depth of queues, what waits in the outbox.

One archivist of the fleet does it at a time, so that a figure has one source; the others show none.
The age of the job last started is not asked of the broker: the workers that start jobs measure it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from smena.amqp.names import addresses, dead_queue, lost_queue, parts, work_queue
from smena.clock import Deadline
from smena.guarantees.solo import Solo
from smena.lifecycle import Loop
from smena.telemetry import events, metric
from smena.telemetry.tally import Board

EVERY_S: Final = 5.0
BEHIND_S: Final = 60.0
"""Age of the oldest unsent row from which on the relay has fallen behind."""

DepthsOf = Callable[[Sequence[str]], Mapping[str, int]]
Waiting = Callable[[], tuple[int, float]]


class Sampler(Loop):
    """The loop that samples; a service."""

    def __init__(
        self,
        solo: Solo,
        depths_of: DepthsOf,
        outbox_waiting: Waiting,
        queues: Sequence[str],
        prefix: str,
        board: Board,
        *,
        partitions: Mapping[str, int] | None = None,
        every_s: float = EVERY_S,
    ) -> None:
        super().__init__("sampler", self._round, self._failed)
        self._solo = solo
        self._depths_of = depths_of
        self._outbox_waiting = outbox_waiting
        self._queues = tuple(queues)
        self._prefix = prefix
        self._partitions = partitions or {}
        self._every_s = every_s
        self._figures: dict[str, dict[str, float]] = {}
        self._is_behind = False
        for one in (metric.BACKLOG, metric.DEAD_LETTERS, metric.OUTBOX_WAITING, metric.OUTBOX_LAG):
            board.gauge(one, lambda name=one.name: self._figures.get(name, {}))  # type: ignore[misc]

    def stop(self, deadline: Deadline) -> bool:
        """End after the current round and let another sample."""
        ended = super().stop(deadline)
        if ended:
            self._solo.leave()
        return ended

    def _round(self, stopping: threading.Event) -> None:
        self._figures = self._sampled() if self._solo.held() else {}
        stopping.wait(self._every_s)

    def _failed(self, loop: str, error: BaseException) -> None:
        self._figures = {}  # an old figure would look like a true one
        events.loop_failed(loop, error)

    def _sampled(self) -> dict[str, dict[str, float]]:
        places = addresses(self._queues, self._partitions)
        work = {work_queue(self._prefix, place): parts(place)[0] for place in places}
        dead = {dead_queue(self._prefix, queue): queue for queue in self._queues}
        lost = {lost_queue(self._prefix): "lost"}
        depths = self._depths_of([*work, *dead, *lost])
        rows, lag_s = self._outbox_waiting()
        self._tell_if_behind(rows, lag_s)
        return {
            metric.BACKLOG.name: _by_queue(work, depths),
            metric.DEAD_LETTERS.name: {q: depths[name] for name, q in (dead | lost).items() if name in depths},
            metric.OUTBOX_WAITING.name: {"": rows},
            metric.OUTBOX_LAG.name: {"": lag_s},
        }

    def _tell_if_behind(self, rows: int, lag_s: float) -> None:
        """Tell once, when the outbox falls behind."""
        was, self._is_behind = self._is_behind, lag_s > BEHIND_S
        if self._is_behind and not was:
            events.emit(events.RELAY_FELL_BEHIND, rows=rows, oldest_s=round(lag_s, 1))


def _by_queue(work: Mapping[str, str], depths: Mapping[str, int]) -> dict[str, float]:
    """Return the depth of each queue that is there, its partitions together."""
    counted: dict[str, float] = {}
    for name, queue in work.items():
        if name in depths:
            counted[queue] = counted.get(queue, 0) + depths[name]
    return counted
