"""The watch over a loop: its lag is measured, and who holds it up is named."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from smena.clock import SYSTEM, Deadline
from smena.telemetry import events
from tests.fixtures.eventually import PATIENCE_S, eventually
from tests.fixtures.fix_events import Listen
from workers.execution.coroutines import Coroutines
from workers.execution.loop_watch import LoopWatch


@pytest.fixture
def coroutines() -> Iterator[Coroutines]:
    running = Coroutines([])
    running.start()
    yield running
    running.stop(Deadline.within(PATIENCE_S, SYSTEM))


@pytest.fixture
def watch(coroutines: Coroutines) -> Iterator[LoopWatch]:
    watching = LoopWatch("event-loop", coroutines.post, 0.1)
    watching.start()
    yield watching
    watching.stop(Deadline.within(PATIENCE_S, SYSTEM))


async def hold_the_loop(until: threading.Event) -> None:
    while not until.is_set():
        time.sleep(0.01)


def test_a_coroutine_that_holds_the_loop_is_named_with_its_stack(
    coroutines: Coroutines, watch: LoopWatch, listen: Listen
) -> None:
    told = listen(events.LOOP_BLOCKED)
    let_go = threading.Event()
    try:
        eventually(lambda: watch.lags_s())
        coroutines.post(lambda: asyncio.ensure_future(hold_the_loop(let_go)))
        eventually(lambda: told)
        eventually(lambda: watch.worst_s() > 0.3)
    finally:
        let_go.set()
    assert told[0].fields["loop"] == "event-loop"
    assert any("hold_the_loop" in place for place in told[0].fields["stack"])
    assert len(told) == 1


def test_a_loop_that_moves_has_a_lag_and_no_warning(watch: LoopWatch) -> None:
    eventually(lambda: len(watch.lags_s()) >= 5)
    assert watch.worst_s() >= 0
