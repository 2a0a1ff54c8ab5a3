"""Show the run as a table that changes in place; at a terminal only."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.table import Table

from examples.shop.standing import Standing

_WINDOW_S = 3.0


class LiveTable:
    """A table on the console while the ``with`` block lasts; silent where that is no terminal."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._past: list[Standing] = []

    def __enter__(self) -> LiveTable:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, standing: Standing) -> None:
        """Draw the table anew. As the verdict does, it counts sales and charges as jobs, what else happens apart."""
        if self._live is not None:
            self._live.update(self._table(standing), refresh=True)

    def _table(self, now: Standing) -> Table:
        table = Table(title="A shop's sales through the fleet")
        for heading in (
            "published",
            "waiting",
            "running",
            "retried",
            "done",
            "dead",
            "mails",
            "receipts",
            "stock moves",
            "rate",
            "p50",
            "p99",
        ):
            table.add_column(heading, justify="right")
        published = now.progress.lines + now.charge_jobs
        latency = [f"{now.latency_ms.get(name, 0.0):,.0f} ms" for name in ("p50", "p99")]
        ended = (_done(now), now.dead, now.mails, now.receipts, now.moves)
        cells = (published, now.waiting, now.running, now.events["job.retried"], *ended)
        table.add_row(*(f"{cell:,}" for cell in cells), f"{self._rate(now):,.0f}/s", *latency)
        return table

    def _rate(self, now: Standing) -> float:
        self._past = [past for past in self._past if now.at_s - past.at_s <= _WINDOW_S] + [now]
        first = self._past[0]
        return (_done(now) - _done(first)) / (now.at_s - first.at_s) if now.at_s > first.at_s else 0.0


def _done(standing: Standing) -> int:
    return standing.sales + standing.charges
