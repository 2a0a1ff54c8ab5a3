"""Which suspects are tried together."""

from collections.abc import Sequence
from typing import Any, cast

from smena.records.strike import Strike, Why
from workers.execution.cell import Suspect
from workers.execution.verdicts import by_death


def suspects(life: str, why: Why, numbers: Sequence[int]) -> list[Suspect]:
    """Make suspects of one death; nothing is asked of their attempts."""
    return [
        Suspect(cast("Any", number), [Strike(job_id=str(number), attempt=1, life=life, actor="a.b", why=why)])
        for number in numbers
    ]


def test_p21_those_that_had_ended_are_halved_apart_and_behind_those_that_ran() -> None:
    ran = suspects("a", "suspected", range(4))
    had_ended = suspects("a", "ended", range(4, 7))
    of_another = suspects("b", "suspected", [9])

    groups = by_death([*had_ended, *ran, *of_another])
    tried = [[suspect.strikes[-1].job_id for suspect in group] for group in groups]
    assert tried == [["0", "1"], ["2", "3"], ["9"], ["4", "5"], ["6"]]
