"""What one drill, or one of its controls, came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workers.drills.bar import Bar
from workers.drills.drill import Control
from workers.drills.verdict import Verdict


@dataclass(frozen=True)
class Report:
    """One run. ``failures`` says in sentences why it did not pass; empty for one that did."""

    name: str
    run: str
    control: Control | None
    bite: int
    verdict: Verdict
    recover_s: float | None
    left_over: int
    seconds: float
    bars: Sequence[Bar]
    notes: Mapping[str, float | str]
    failures: Sequence[str]

    @property
    def passed(self) -> bool:
        """Say whether the drill held; of a control, whether the judge found what it had to find."""
        return not self.failures

    def facts(self) -> dict[str, Any]:
        """Return the report for programs."""
        verdict = self.verdict
        facts: dict[str, Any] = {
            "name": self.name,
            "run": self.run,
            "passed": self.passed,
            "bite": self.bite,
            "accepted": verdict.accepted,
            "effects": verdict.effects,
            "dead": verdict.dead,
            "lost": verdict.lost,
            "doubled": verdict.doubled,
            "innocent_attempts": verdict.innocent_attempts,
            "recover_s": None if self.recover_s is None else round(self.recover_s, 3),
            "left_over": self.left_over,
            "seconds": round(self.seconds, 1),
            "bars": [bar.facts() for bar in self.bars],
            "notes": dict(self.notes),
            "failures": list(self.failures),
        }
        if self.control is not None:
            facts |= {"control": self.control.guard, "must_be": self.control.must_be}
        return facts

    def lines(self) -> list[str]:
        """Return the report for people."""
        verdict = self.verdict
        name = self.name if self.control is None else f"{self.name}, {self.control.guard}"
        back = "" if self.recover_s is None else f"  back after {self.recover_s:.2f} s"
        head = (
            f"{'passed' if self.passed else 'FAILED'}  {name:<34}bite {self.bite:<5}accepted {verdict.accepted:<6}"
            f"effects {verdict.effects:<6}lost {verdict.lost}  doubled {verdict.doubled}  "
            f"innocents' attempts {verdict.innocent_attempts}  left over {self.left_over}{back}  {self.seconds:.1f} s"
        )
        notes = (f"{name}: {value}" for name, value in self.notes.items())
        return [head, *(f"        {line}" for line in (*map(str, self.bars), *notes, *self.failures))]


def summary(reports: Sequence[Report]) -> dict[str, Any]:
    """Return all reports for programs, with how long they took on average."""
    seconds = [report.seconds for report in reports]
    return {
        "drills": [report.facts() for report in reports],
        "passed": all(report.passed for report in reports),
        "average_s": round(sum(seconds) / len(seconds), 1) if seconds else 0.0,
    }
