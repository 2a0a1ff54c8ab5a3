"""Print figures for people, and as one JSON object for programs."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

Row = Mapping[str, Any]


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
    }


def show(title: str, rows: Sequence[Row], ratios: Mapping[str, float | None], *, as_json: bool) -> None:
    """Print a table to the terminal; with ``as_json`` the object comes as the last line of stdout."""
    table = Table(title=title)
    for column in rows[0]:
        table.add_column(column)
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    console = Console(file=sys.stderr if as_json else sys.stdout)
    console.print(table)
    for name, ratio in ratios.items():
        console.print(f"{name}: {'-' if ratio is None else f'{ratio:.2f}'}")
    if as_json:
        print(json.dumps({"bench": title, "machine": machine(), "systems": list(rows), **ratios}))


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"
    if isinstance(value, tuple | list):
        return " ".join(_cell(each) for each in value)
    return str(value)
