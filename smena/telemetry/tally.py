"""Count on the hot path, without a lock and without losing a count.

Each thread (or slot) writes a `Tally` of its own; a `Board` keeps all tallies of a process and adds
them up when asked. A snapshot is plain data: JSON-able, cumulative, and mergeable with those of other
processes. The one assumption: copying a dict or a list is one step under the interpreter's lock.

    {"counters":   {"smena_jobs_total": {"sales.record|done": 12}},
     "histograms": {"smena_queue_latency_seconds": {"sales": [counts of `histogram.BOUNDS_S`, …]}},
     "sums":       {"smena_queue_latency_seconds": {"sales": 1.25}},
     "gauges":     {"smena_in_flight": {"sales": 3}}}
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Any

from smena.telemetry.histogram import BOUNDS_S, BUCKETS
from smena.telemetry.metric import JOBS, METRICS, QUEUE_LATENCY, RUN_TIME, Metric

Snapshot = dict[str, dict[str, dict[str, Any]]]
GaugeReader = Callable[[], Mapping[str, float]]
CountReader = Callable[[], Mapping[str, int]]


class _Durations:
    """Counts by bucket, and their sum."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * BUCKETS
        self.total_s = 0.0


class Tally:
    """The counts of one thread; only that thread may write."""

    __slots__ = ("_counts", "_jobs", "_latency", "_run_time", "_seconds")

    def __init__(self) -> None:
        self._jobs: dict[tuple[str, str], int] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._latency: dict[str, _Durations] = {}
        self._run_time: dict[str, _Durations] = {}
        self._seconds: dict[str, dict[str, _Durations]] = {}

    def count(self, actor: str, outcome: str) -> None:
        """Count one delivery by its outcome."""
        jobs = self._jobs
        key = (actor, outcome)
        try:
            jobs[key] += 1
        except KeyError:
            jobs[key] = 1

    def latency(self, queue: str, seconds: float) -> None:
        """Note the time from when a job was due until it started; a clock that is behind counts as no wait."""
        if seconds < 0.0:
            seconds = 0.0
        try:
            durations = self._latency[queue]
        except KeyError:
            durations = self._latency[queue] = _Durations()
        durations.counts[bisect_left(BOUNDS_S, seconds)] += 1
        durations.total_s += seconds

    def run_time(self, actor: str, seconds: float) -> None:
        """Note how long an actor ran."""
        try:
            durations = self._run_time[actor]
        except KeyError:
            durations = self._run_time[actor] = _Durations()
        durations.counts[bisect_left(BOUNDS_S, seconds)] += 1
        durations.total_s += seconds

    def observe(self, metric: Metric, label: str, seconds: float) -> None:
        """Note a duration of any histogram of the catalogue; ``label`` joins its labels with `|`."""
        durations = self._seconds.setdefault(metric.name, {}).setdefault(label, _Durations())
        durations.counts[bisect_left(BOUNDS_S, seconds)] += 1
        durations.total_s += seconds

    def add(self, metric: Metric, *labels: str, by: int = 1) -> None:
        """Raise any counter of the catalogue."""
        key = (metric.name, "|".join(labels))
        self._counts[key] = self._counts.get(key, 0) + by

    def snapshot(self) -> Snapshot:
        """Return the counts so far; any thread may ask."""
        counters: dict[str, dict[str, int]] = {}
        if jobs := self._jobs.copy():
            counters[JOBS.name] = {f"{actor}|{outcome}": count for (actor, outcome), count in jobs.items()}
        for (name, label), count in self._counts.copy().items():
            counters.setdefault(name, {})[label] = count
        timed = (
            (QUEUE_LATENCY.name, self._latency.copy()),
            (RUN_TIME.name, self._run_time.copy()),
            *((name, by.copy()) for name, by in self._seconds.copy().items()),
        )
        return {
            "counters": counters,
            "histograms": {name: {key: item.counts[:] for key, item in by.items()} for name, by in timed if by},
            "sums": {name: {key: item.total_s for key, item in by.items()} for name, by in timed if by},
            "gauges": {},
        }


class Board:
    """All tallies and gauges of one process."""

    def __init__(self) -> None:
        self._tallies: list[Tally] = []
        self._gauges: dict[str, GaugeReader] = {}
        self._counters: list[tuple[str, CountReader]] = []
        self._shared = Tally()
        self._changing = threading.Lock()

    def tally(self) -> Tally:
        """Return a new tally for one thread; it counts for as long as the board lives."""
        tally = Tally()
        with self._changing:
            self._tallies.append(tally)
        return tally

    def add(self, metric: Metric, *labels: str, by: int = 1) -> None:
        """Raise a counter from any thread; takes a lock, so not for the hot path."""
        with self._changing:
            self._shared.add(metric, *labels, by=by)

    def gauge(self, metric: Metric, read: GaugeReader) -> None:
        """Ask ``read`` for the figure by label (joined with `|`, empty for none) at each snapshot."""
        with self._changing:
            self._gauges[metric.name] = read

    def counter(self, metric: Metric, read: CountReader) -> None:
        """Ask ``read`` for a part's own count by label, which never falls, at each snapshot; several add up."""
        with self._changing:
            self._counters.append((metric.name, read))

    def snapshot(self) -> Snapshot:
        """Return the sum of all tallies and counters and what the gauges say now."""
        with self._changing:
            tallies, gauges = [self._shared, *self._tallies], dict(self._gauges)
            counters = list(self._counters)
        total = empty()
        for tally in tallies:
            total = merge(total, tally.snapshot())
        for name, read in counters:
            total = merge(total, {"counters": {name: dict(read())}})
        total["gauges"] = {name: dict(read()) for name, read in gauges.items()}
        return total


def empty() -> Snapshot:
    """Return the snapshot of nothing."""
    return {"counters": {}, "histograms": {}, "sums": {}, "gauges": {}}


def merge(one: Snapshot, other: Snapshot) -> Snapshot:
    """Return both together: counts and sums add up, gauges fold as the catalogue says."""
    return {
        "counters": _fold(one, other, "counters", lambda _name: _plus),
        "histograms": _fold(one, other, "histograms", lambda _name: _plus_each),
        "sums": _fold(one, other, "sums", lambda _name: _plus),
        "gauges": _fold(one, other, "gauges", _gauge_fold),
    }


def without_gauges(snapshot: Snapshot) -> Snapshot:
    """Return what stays of a process that has ended: its counts, not its state."""
    return {**snapshot, "gauges": {}}


def _fold(one: Snapshot, other: Snapshot, part: str, fold_of: Callable[[str], Callable[[Any, Any], Any]]) -> Any:
    total = {name: dict(figures) for name, figures in one.get(part, {}).items()}
    for name, figures in other.get(part, {}).items():
        fold, mine = fold_of(name), total.setdefault(name, {})
        for label, figure in figures.items():
            mine[label] = fold(mine[label], figure) if label in mine else figure
    return total


def _plus(one: float, other: float) -> float:
    return one + other


def _plus_each(one: list[int], other: list[int]) -> list[int]:
    return [mine + theirs for mine, theirs in zip(one, other, strict=True)]


def _gauge_fold(name: str) -> Callable[[float, float], float]:
    metric = METRICS.get(name)
    return {"max": max, "min": min}.get(metric.fold if metric else "sum", _plus)
