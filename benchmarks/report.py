"""Print figures for people, and as one JSON object for programs."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.entrant import Entrant, said

Figures = Mapping[str, float]
_WIDTH = 120
OTHERS = ("celery", "taskiq", "faststream")
"""The families of peers beside Dramatiq, whose rows are compared by name."""


@dataclass(frozen=True, slots=True)
class Bar:
    """What a ratio or a figure is held against."""

    name: str
    bound: float
    at_most: bool = False

    def holds(self, value: float) -> bool:
        """Say whether the value passes."""
        return value <= self.bound if self.at_most else value >= self.bound


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of a bench: a row of figures for each system (medians), and ratios between them."""

    bench: str
    unit: str
    entrants: Sequence[Entrant[Any]]
    figures: Mapping[str, Figures]
    ratios: Mapping[str, float | None]
    bars: Sequence[Bar] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)

    def missed(self) -> list[Bar]:
        """Return the bars that were measured and not met."""
        return [bar for bar in self.bars if (value := self._value(bar)) is not None and not bar.holds(value)]

    def broken(self) -> bool:
        """Say whether Smena itself stalled or lost something."""
        return any(entrant.stalled for entrant in self.entrants if entrant.system.family == "smena")

    def print(self, *, as_json: bool) -> None:
        """Print a table; with ``as_json`` to stderr, and the object as the last line of stdout."""
        console = Console(file=sys.stderr if as_json else sys.stdout)
        console = console if console.is_terminal else Console(file=console.file, width=_WIDTH)
        console.print(self._table())
        for name, ratio in self.ratios.items():
            console.print(f"{name:<32}{'-' if ratio is None else f'{ratio:.2f}'}", highlight=False)
        for bar in self.bars:
            console.print(self._verdict(bar), highlight=False)
        if as_json:
            print(json.dumps(self._object(), default=str), flush=True)

    def _table(self) -> Table:
        table = Table(title=f"{self.bench} ({self.unit})")
        columns = list(dict.fromkeys(name for figures in self.figures.values() for name in figures))
        for column in ("system", "version", "prefetch", *columns, "rounds", "killed at"):
            table.add_column(column, justify="left" if column in ("system", "version") else "right")
        for entrant in self.entrants:
            figures = self.figures.get(entrant.system.name, {})
            table.add_row(
                entrant.system.name,
                entrant.system.version(),
                str(entrant.prefetch or "-"),
                *(said(figures[column]) if column in figures else "-" for column in columns),
                "stalled" if entrant.stalled else str(len(entrant.rounds)),
                "-" if entrant.killed_at is None else f"{entrant.killed_at}, lost 0",
            )
        return table

    def _value(self, bar: Bar) -> float | None:
        return self.ratios.get(bar.name) if bar.name in self.ratios else self.figures.get("smena", {}).get(bar.name)

    def _verdict(self, bar: Bar) -> str:
        value = self._value(bar)
        word = "not measured" if value is None else f"{value:,.2f}: {'met' if bar.holds(value) else 'MISSED'}"
        return f"bar: {bar.name} {'at most' if bar.at_most else 'at least'} {bar.bound:g}: {word}"

    def _object(self) -> dict[str, Any]:
        return {
            "bench": self.bench,
            "unit": self.unit,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": machine(),
            **self.notes,
            "systems": {entrant.system.name: self._row(entrant) for entrant in self.entrants},
            "missed": [bar.name for bar in self.missed()],
            **self.ratios,
        }

    def _row(self, entrant: Entrant[Any]) -> dict[str, Any]:
        return {
            "version": entrant.system.version(),
            "options": entrant.options(),
            "jobs": entrant.jobs,
            "figures": self.figures.get(entrant.system.name, {}),
            "rounds": entrant.rounds,
            "killed_at": entrant.killed_at,
            "stalled": entrant.stalled,
        }


def medians(entrants: Sequence[Entrant[dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Return each system's figures: the median of its rounds; systems without a round are left out."""
    return {
        entrant.system.name: {name: median(each[name] for each in entrant.rounds) for name in entrant.rounds[0]}
        for entrant in entrants
        if entrant.rounds
    }


def ratios(
    entrants: Sequence[Entrant[Any]],
    figures: Mapping[str, Figures],
    figure: str,
    best: Callable[[Sequence[float]], float],
) -> dict[str, float | None]:
    """Return Smena's ratios by one figure; ``best`` is `max` or `min`. None where one side was not measured.

    ``ratio_best_peer`` is that to the best of the peers beside Dramatiq.
    """

    def of(*families: str) -> float | None:
        names = [entrant.system.name for entrant in entrants if entrant.system.family in families]
        values = [figures[name][figure] for name in names if name in figures]
        ours = figures.get("smena", {}).get(figure)
        return ours / best(values) if ours is not None and values else None

    return {
        "ratio_dramatiq": of("dramatiq"),
        "ratio_celery": of("celery"),
        "ratio_best_peer": of(*OTHERS),
        "of_limit": of("limit"),
    }


def ratio(figures: Mapping[str, Figures], rival: str, figure: str) -> float | None:
    """Return Smena's ratio to one system by one figure, or None where one was not measured."""
    ours, theirs = (figures.get(name, {}).get(figure) for name in ("smena", rival))
    return ours / theirs if ours is not None and theirs else None


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    return {
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
    }
