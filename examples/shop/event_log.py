"""Read the fleet's event log as it grows: what came back, what was absorbed, how long jobs waited."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any, Final

_COUNTED: Final = ("job.redelivered", "once.hit", "job.retried", "job.snoozed", "job.dead", "job.lost")


class EventLog:
    """A log file of one JSON object a line; `read_on` takes in what was added since the last call."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._latency: Counter[float] = Counter()
        self.counts: Counter[str] = Counter()
        self.last_due_at = 0.0
        """When the last of the jobs that were put off is due, in Unix seconds."""

    def read_on(self) -> None:
        """Take in the new whole lines; a file that is not there yet is empty."""
        try:
            with self._path.open("rb") as log:
                log.seek(self._at)
                for line in log:
                    if not line.endswith(b"\n"):
                        break
                    self._at += len(line)
                    self._take(line)
        except FileNotFoundError:
            return

    def latency_ms(self) -> dict[str, float]:
        """Return the percentiles of the time from when a job was due until it started."""
        return {"p50": self._percentile_ms(0.50), "p99": self._percentile_ms(0.99)}

    def _take(self, line: bytes) -> None:
        if not any(event.encode() in line for event in (*_COUNTED, "worker.tally")):
            return
        entry: dict[str, Any] = json.loads(line)
        if entry.get("event") == "worker.tally":
            for bound, count in entry.get("latency_buckets", {}).items():
                self._latency[float(bound)] += count
        elif entry.get("event") in _COUNTED:
            self.counts[entry["event"]] += 1
            if "delay_s" in entry:
                self.last_due_at = max(self.last_due_at, _unix_s(entry["time"]) + entry["delay_s"])

    def _percentile_ms(self, share: float) -> float:
        """Return the upper bound of the bucket in which that share of the jobs is reached."""
        left = share * self._latency.total()
        reached = 0.0
        for bound in sorted(self._latency):
            reached = bound
            left -= self._latency[bound]
            if left <= 0:
                break
        return round(reached * 1000, 3)


def _unix_s(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
