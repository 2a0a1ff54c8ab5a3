"""What a step holds together with all that it has started is looked at as often as the processor's time allows."""

import itertools

import pytest

from workers.execution.pool_memory import SHARE, PoolMemory
from workers.process import footprint


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.mark.parametrize(("work_s", "pause_s"), [(0.0, 0.0), (0.01, 0.01 / SHARE)])
def test_a_look_that_waits_for_the_interpreter_is_no_dearer_for_that(
    monkeypatch: pytest.MonkeyPatch, work_s: float, pause_s: float
) -> None:
    clock, spent = Clock(), itertools.count()
    looks: list[float] = []

    def families(_leaders: object) -> dict[int, list[int]]:  # waits five seconds for the interpreter
        looks.append(clock.now_s)
        clock.now_s += 5.0
        return {}

    monkeypatch.setattr(footprint, "families", families)
    monkeypatch.setattr(footprint, "resident_bytes", lambda _pid: 1)
    memory = PoolMemory(10, clock, lambda: next(spent) * work_s)  # type: ignore[arg-type]
    for _ in range(100):
        memory.look([1])
        clock.now_s += 0.05
    gaps = [later - earlier - 5.0 for earlier, later in itertools.pairwise(looks)]
    assert max(gaps) == pytest.approx(max(pause_s, 0.05), abs=0.06)
