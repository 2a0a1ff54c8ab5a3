"""Prove that each of N jobs took effect, at next to no cost for the system that is measured.

A file mapped into memory by all processes of a round: for each id a byte that says that its job has
taken effect, the time it was sent, and the time it started. It is the same for every system, and it
survives a worker's death. Times are of CLOCK_MONOTONIC, which all processes of a machine share.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from time import monotonic, sleep
from typing import Final

ENVIRONMENT: Final = "BENCH_PROOF"

_TIME: Final = 8
_RECORD: Final = 2 * _TIME + 1
_LOOK_S: Final = 0.0005


class Sheet:
    """The mapped file: ``sent`` and ``started`` are times by id, ``marks`` is 1 where a job took effect."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self.ids = ids = len(self._map) // _RECORD
        whole = memoryview(self._map)
        self.sent = whole[: ids * _TIME].cast("d")
        self.started = whole[ids * _TIME : 2 * ids * _TIME].cast("d")
        self.marks = whole[2 * ids * _TIME :]

    def seen(self, job: int) -> None:
        """Note that a job has started and, being a no-op, taken effect; from any thread or process."""
        if not self.marks[job]:
            self.started[job] = monotonic()
            self.marks[job] = 1

    def wait_seen(self, job: int, patience_s: float) -> None:
        """Wait for a job to start; raise `TimeoutError` when it does not."""
        give_up = monotonic() + patience_s
        while not self.marks[job]:
            if monotonic() > give_up:
                raise TimeoutError(f"job {job} has not started in {patience_s:.0f} s")
            sleep(_LOOK_S)

    def close(self) -> None:
        """Unmap the file."""
        for view in (self.sent, self.started, self.marks):
            view.release()
        self._map.close()


class Proof:
    """The file of one round, as the judge reads it."""

    def __init__(self, path: Path, ids: int) -> None:
        self.path = path
        self.ids = ids
        with path.open("wb") as file:
            file.truncate(ids * _RECORD)
        self._sheet = Sheet(path)

    def effects(self) -> int:
        """Return how many distinct ids have taken effect."""
        return bytes(self._sheet.marks).count(1)

    def confirmed(self) -> set[int]:
        """Return the ids that a sender has noted as sent."""
        return {job for job, time in enumerate(self._sheet.sent) if time}

    def seconds(self) -> float:
        """Return the time from the first start to the last."""
        times = [time for time in self._sheet.started if time]
        return max(times) - min(times)

    def starts(self, first: int = 0, most: int | None = None) -> list[float]:
        """Return, for ``most`` ids from ``first`` on, when each started; zero where it has not."""
        return list(self._sheet.started[first : None if most is None else first + most])

    def waiting(self) -> int:
        """Return how many ids noted as sent have not started; the last batch, which may be cut short, aside."""
        last = max(self._sheet.sent)
        return sum(
            0 < sent < last and not started for sent, started in zip(self._sheet.sent, self._sheet.started, strict=True)
        )

    def first_not_started(self) -> int:
        """Return the lowest id that has not started, or the number of ids."""
        return next((job for job, started in enumerate(self._sheet.started) if not started), self.ids)

    def latencies_s(self, first: int = 0) -> list[float]:
        """Return, for ids from ``first`` on, the times from send to start."""
        pairs = zip(self._sheet.sent[first:], self._sheet.started[first:], strict=True)
        return [started - sent for sent, started in pairs if sent and started]

    def close(self) -> None:
        """Unmap and remove the file."""
        self._sheet.close()
        self.path.unlink()


_sheets: list[Sheet] = []


def sheet() -> Sheet:
    """Return this process's view of the file that the environment names."""
    if not _sheets:
        _sheets.append(Sheet(Path(os.environ[ENVIRONMENT])))
    return _sheets[0]


def seen(job: int) -> None:
    """Note an effect; what each system's job does."""
    (_sheets[0] if _sheets else sheet()).seen(job)
