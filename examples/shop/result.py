"""Hold what a run of the demo came to, and say it to a person or a program."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Final

_FEW: Final = 1000
"""A fleet may be done with so many jobs before a kill meets enough of them."""


@dataclass(frozen=True)
class Result:
    """The verdict's figures, and beside them what the demo saw.

    ``amount`` is text, for it is exact. ``redelivered``, ``repeats_absorbed`` and ``latency_ms`` come from the
    event log, all else from the database and the provider's log. ``left`` counts messages that still lay in a
    queue when the fleet had stopped.
    """

    accepted: int
    effects: int
    lost: int
    doubled: int
    wrong: int
    dead: int
    dead_by_reason: dict[str, int]
    rejected: int
    mails: int
    receipts: int
    stock_moves: int
    order_violations: int
    reports: int
    report_groups: int
    amount: str
    killed_running: int
    drained: bool
    redelivered: int
    repeats_absorbed: int
    left: int
    seconds: float
    rate: float
    latency_ms: dict[str, float]
    examples: list[str]

    def faults(self) -> list[str]:
        """Return everything that keeps this run from being a success, in words."""
        checks = {
            f"{self.accepted} accepted, but {self.effects} effects and {self.dead} dead": self.accepted
            == self.effects + self.dead,
            f"{self.lost} lost": self.lost == 0,
            f"{self.doubled} doubled": self.doubled == 0,
            f"{self.wrong} with the wrong content": self.wrong == 0,
            f"{self.order_violations} moves of the stock out of their order": self.order_violations == 0,
            f"{self.reports} summaries of the night's report": self.reports == 1,
            f"{self.left} messages still lie in queues": self.left == 0,
            **self._drills(),
        }
        return [fault for fault, passed in checks.items() if not passed]

    def _drills(self) -> dict[str, bool]:
        """Return what the demo did to its fleet; too short a file is done before anything can be done to it."""
        if self.accepted < _FEW and not self.killed_running and not self.drained:
            return {f"the file has too few jobs to kill a worker in the middle of them: {self.accepted:,}": False}
        return {
            "no worker was killed in the middle of its jobs": self.killed_running > 0,
            "nothing came back after the kill": self.redelivered > 0,
            "no worker was drained and replaced": self.drained,
        }

    def as_json(self) -> str:
        """Return one line of JSON."""
        return json.dumps(asdict(self))

    def as_text(self) -> str:
        """Return a few lines for a person."""
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.dead_by_reason.items()) or "none"
        p50, p99 = self.latency_ms["p50"], self.latency_ms["p99"]
        lines = {
            "accepted": f"{self.accepted:,} jobs; {self.rejected:,} lines refused",
            "took effect": f"{self.effects:,}, {self.mails:,} mails, {self.receipts:,} receipts, {self.amount} charged",
            "stock": f"{self.stock_moves:,} moves, {self.order_violations} out of the file's order",
            "report": f"{self.reports} summary, {self.report_groups} charts",
            "dead letters": f"{self.dead:,} ({reasons})",
            "lost, doubled, wrong": f"{self.lost}, {self.doubled}, {self.wrong}",
            "killed": f"one worker, in the middle of {self.killed_running} jobs; {self.redelivered:,} jobs came back",
            "drained": "another worker, and replaced" if self.drained else "none",
            "repeats absorbed": f"{self.repeats_absorbed:,}",
            "took": f"{self.seconds:,.1f} s, {self.rate:,.0f} jobs/s",
            "queue latency": f"p50 {p50:,.0f} ms, p99 {p99:,.0f} ms: the file comes in one burst",
        }
        verdict = [f"NOT GOOD: {fault}" for fault in self.faults()] or ["Nothing was lost and nothing happened twice."]
        return "\n".join(["", *(f"{name:>22}  {text}" for name, text in lines.items()), *self.examples, *verdict])


def result_of(verdict: dict[str, Any], **seen: Any) -> Result:
    """Join the ledger's JSON with what the demo saw."""
    names = Result.__dataclass_fields__.keys() - seen.keys()
    return Result(**{name: verdict[name] for name in names}, **seen)
