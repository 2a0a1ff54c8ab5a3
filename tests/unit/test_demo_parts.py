"""What the demo shows and when it calls a run good."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from examples.shop.live_table import LiveTable
from examples.shop.publisher import Progress
from examples.shop.result import Result, result_of
from examples.shop.standing import Standing

VERDICT: dict[str, Any] = {
    "accepted": 10,
    "effects": 9,
    "lost": 0,
    "doubled": 0,
    "wrong": 0,
    "dead": 1,
    "dead_by_reason": {"price_not_positive": 1},
    "rejected": 2,
    "mails": 3,
    "receipts": 2,
    "stock_moves": 5,
    "order_violations": 0,
    "reports": 1,
    "report_groups": 3,
    "amount": "12.340",
    "findings": {},
    "examples": [],
    "holds": True,
}
GOOD = result_of(
    VERDICT,
    killed_running=5,
    drained=True,
    redelivered=8,
    repeats_absorbed=4,
    left=0,
    seconds=2.0,
    rate=5.0,
    latency_ms={"p50": 1.0, "p99": 2.0},
)


def test_a_good_run_has_no_faults() -> None:
    assert GOOD.faults() == []
    assert "Nothing was lost and nothing happened twice." in GOOD.as_text()


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"effects": 8}, "10 accepted, but 8 effects and 1 dead"),
        ({"lost": 1}, "1 lost"),
        ({"doubled": 1}, "1 doubled"),
        ({"wrong": 1}, "1 with the wrong content"),
        ({"killed_running": 0}, "no worker was killed"),
        ({"redelivered": 0}, "nothing came back"),
        ({"drained": False}, "no worker was drained"),
        ({"order_violations": 2}, "2 moves of the stock out of their order"),
        ({"reports": 0}, "0 summaries of the night's report"),
        ({"left": 3}, "3 messages still lie in queues"),
    ],
)
def test_a_run_that_proves_nothing_or_breaks_a_promise_is_not_good(change: dict[str, Any], fault: str) -> None:
    bad = replace(GOOD, **change)
    assert [found for found in bad.faults() if fault in found]
    assert f"NOT GOOD: {bad.faults()[0]}" in bad.as_text()


@pytest.mark.parametrize("accepted", [0, 1])
def test_a_file_with_too_few_jobs_is_told_in_one_sentence(accepted: int) -> None:
    few: dict[str, Any] = {"accepted": accepted, "effects": accepted, "dead": 0, "killed_running": 0, "redelivered": 0}
    [fault] = replace(GOOD, drained=False, **few).faults()
    assert "too few jobs to kill a worker in the middle of" in fault


def test_the_json_has_what_is_documented() -> None:
    documented = """accepted effects lost doubled dead dead_by_reason rejected mails amount killed_running redelivered
        repeats_absorbed seconds rate latency_ms"""
    assert set(documented.split()) <= json.loads(GOOD.as_json()).keys()
    assert set(Result.__dataclass_fields__) == json.loads(GOOD.as_json()).keys()


def standing(**facts: Any) -> Standing:
    progress = Progress(lines=3, orders=1, relayed=2, published=True)
    return Standing(
        progress=progress,
        **{"sales": 2, "moves": 3, "reports": 1, "charges": 1, "mails": 1, "dead": 1, "charge_jobs": 1, "mail_jobs": 1}
        | facts,
    )


def test_a_run_is_quiet_when_all_has_ended_and_nothing_waits_anywhere() -> None:
    assert standing().is_quiet
    for stir in ("unsent", "waiting", "parked", "unarchived", "running", "is_delayed"):
        assert not standing(**{stir: 1}).is_quiet
    assert not standing(sales=1).is_quiet
    assert not standing(moves=2).is_quiet
    assert not standing(reports=0).is_quiet
    assert not replace(standing(), progress=Progress(lines=3, orders=1, relayed=2)).is_quiet
    assert not replace(standing(), progress=Progress(lines=3, orders=1, relayed=1, published=True)).is_quiet


def test_the_table_is_drawn_at_a_terminal_only() -> None:
    silent, shown = io.StringIO(), io.StringIO()
    for out, terminal in ((silent, False), (shown, True)):
        with LiveTable(Console(file=out, force_terminal=terminal, width=140)) as table:
            table.show(standing(at_s=1.0))
            table.show(standing(at_s=2.0, sales=12, latency_ms={"p50": 3.0, "p99": 1_234.0}))
    assert silent.getvalue() == ""
    for word in ("published", "waiting", "running", "retried", "done", "dead", "rate", "10/s", "p50", "1,234 ms"):
        assert word in shown.getvalue()
