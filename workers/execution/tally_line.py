"""Write one line now and then about what the process did, in place of one for every job."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from smena.clock import Deadline
from smena.lifecycle import Loop
from smena.telemetry import events
from smena.telemetry.histogram import BOUNDS_S, percentile_s
from smena.telemetry.metric import JOBS, QUEUE_LATENCY, RUN_TIME
from smena.telemetry.tally import Snapshot

EVERY_S: Final = 10.0


class TallyLine(Loop):
    """The loop that writes `worker.tally`; a service. It writes a last one when it stops."""

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        super().__init__("tally-line", self._round, events.loop_failed)
        self._snapshot = snapshot
        self._outcomes: Counter[str] = Counter()
        self._latency: Counter[int] = Counter()
        self._run: Counter[int] = Counter()

    def stop(self, deadline: Deadline) -> bool:
        """End the thread, then say what was done since the last line."""
        ended = super().stop(deadline)
        self.write()
        return ended

    def write(self) -> None:
        """Write the line, if anything ran since the last one."""
        snapshot = self._snapshot()
        outcomes = _by_outcome(snapshot["counters"].get(JOBS.name, {}))
        latency = _by_bucket(snapshot["histograms"].get(QUEUE_LATENCY.name, {}))
        run = _by_bucket(snapshot["histograms"].get(RUN_TIME.name, {}))
        new_outcomes, new_latency, new_run = outcomes - self._outcomes, latency - self._latency, run - self._run
        self._outcomes, self._latency, self._run = outcomes, latency, run
        if new_outcomes:
            events.emit(
                events.WORKER_TALLY,
                outcomes=dict(new_outcomes),
                latency_ms=_percentiles_ms(new_latency),
                latency_buckets=_by_bound(new_latency),
                run_ms=_percentiles_ms(new_run),
            )

    def _round(self, stopping: threading.Event) -> None:
        stopping.wait(EVERY_S)
        if not stopping.is_set():
            self.write()


def _by_outcome(jobs: Mapping[str, int]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for label, count in jobs.items():
        counts[label.rpartition("|")[2]] += count
    return counts


def _by_bucket(histograms: Mapping[str, list[int]]) -> Counter[int]:
    counts: Counter[int] = Counter()
    for buckets in histograms.values():
        for index, count in enumerate(buckets):
            counts[index] += count
    return counts


def _percentiles_ms(counts: Counter[int]) -> dict[str, float | None]:
    buckets = [counts[index] for index in range(len(BOUNDS_S) + 1)]
    found = {"p50": percentile_s(buckets, 0.50), "p99": percentile_s(buckets, 0.99)}
    return {name: None if seconds is None else round(seconds * 1000, 3) for name, seconds in found.items()}


def _by_bound(counts: Counter[int]) -> dict[str, Any]:
    return {
        f"{BOUNDS_S[index]:.4g}" if index < len(BOUNDS_S) else "inf": count
        for index, count in sorted(counts.items())
        if count
    }
