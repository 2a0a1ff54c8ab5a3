"""Turn merged snapshots into Prometheus text.

The supervisor merges what its children report and serves the result; no child writes a file, so a
dead one leaves none. A metric that the catalogue does not know (a newer child's) is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from smena.telemetry import histogram
from smena.telemetry.metric import METRICS, Metric
from smena.telemetry.tally import Snapshot

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class SnapshotCollector(Collector):
    """Give prometheus_client the families of whatever snapshot is current."""

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self._snapshot = snapshot

    def describe(self) -> list[Family]:
        """Return nothing: what there is shows only when it is collected."""
        return []

    def collect(self) -> Iterator[Family]:
        """Yield a family for each metric that has figures, in the catalogue's order."""
        snapshot = self._snapshot()
        for metric in METRICS.values():
            if family := _family(metric, snapshot):
                yield family


def render(snapshot: Snapshot) -> bytes:
    """Return the snapshot as Prometheus text."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(SnapshotCollector(lambda: snapshot))
    return generate_latest(registry)


def _family(metric: Metric, snapshot: Snapshot) -> Family | None:
    figures = snapshot.get(f"{metric.kind}s", {}).get(metric.name)
    if not figures:
        return None
    if metric.kind == "histogram":
        sums = snapshot.get("sums", {}).get(metric.name, {})
        durations = HistogramMetricFamily(metric.name, metric.doc, labels=metric.labels)
        for label, counts in figures.items():
            durations.add_metric(_labels(metric, label), histogram.octaves(counts), sums.get(label, 0.0))
        return durations
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(metric.name, metric.doc, labels=metric.labels)
    for label, figure in figures.items():
        family.add_metric(_labels(metric, label), figure)
    return family


def _labels(metric: Metric, joined: str) -> list[str]:
    """Split a label at its last bars: an actor's name may hold one, an outcome may not."""
    if not metric.labels:
        return []
    parts = joined.rsplit("|", len(metric.labels) - 1)
    return parts + [""] * (len(metric.labels) - len(parts))
