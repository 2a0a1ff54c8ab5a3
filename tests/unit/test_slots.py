"""The threads and the event loop that run attempts: sharing, handing back, insisting, ending."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from queue import SimpleQueue
from typing import Any

import pytest

from smena.book import Book
from smena.clock import SYSTEM, Deadline
from smena.job import Job
from smena.settings.groups import Retry as RetryDefaults
from smena.telemetry.tally import Tally
from tests.fixtures.eventually import PATIENCE_S, eventually
from tests.fixtures.noted_delivery import NotedDelivery
from workers.execution.coroutines import Coroutines
from workers.execution.seat import Seat
from workers.execution.slots import Slots
from workers.execution.waiting_room import WaitingRoom
from workers.middleware.attempt import Attempt
from workers.middleware.bound import BoundActor
from workers.middleware.outcome import DONE, Outcome, Returned
from workers.middleware.settle import UNSETTLED

book = Book("slots")


@book.actor()
def plain() -> None:
    """Stand for a plain actor."""


@book.actor()
async def coroutine() -> None:
    """Stand for an async actor."""


class Recorder:
    def bind(self, slot: int) -> None:
        """Forget it."""

    def enter(self, slot: int, job_id: str, actor: str, attempt: int, started_at: float) -> None:
        """Forget it."""

    def leave(self, slot: int) -> None:
        """Forget it."""


def seats(count: int) -> list[Seat]:
    return [Seat(slot, Recorder(), Tally()) for slot in range(count)]


def attempt(call: Callable[[Attempt], Outcome | Awaitable[Outcome]]) -> Attempt:
    actor: Any = plain if not asyncio.iscoroutinefunction(call) else coroutine
    bound = BoundActor(actor, actor.retry.policy(RetryDefaults()))
    bound.call = bound.async_call = call
    return Attempt(NotedDelivery(), Job(actor=actor.name, queue="q"), bound)


def noted(attempt: Attempt) -> NotedDelivery:
    assert isinstance(attempt.delivery, NotedDelivery)
    return attempt.delivery


def within(seconds: float = 30) -> Deadline:
    return Deadline.within(seconds, SYSTEM)


@pytest.fixture
def slots() -> Iterator[Slots]:
    slots = Slots(seats(2))
    slots.start()
    yield slots
    assert slots.stop(within())


@pytest.fixture
def coroutines() -> Iterator[Coroutines]:
    coroutines = Coroutines(seats(2))
    coroutines.start()
    yield coroutines
    coroutines.stop(within())


def test_a_long_job_holds_back_nobody(slots: Slots) -> None:
    gate, done = threading.Event(), threading.Semaphore(0)

    def quick(_: Attempt) -> Outcome:
        done.release()
        return DONE

    slots.put(attempt(lambda _: (gate.wait(30), DONE)[1]))
    for _ in range(5):
        slots.put(attempt(quick))
    assert all(done.acquire(timeout=PATIENCE_S) for _ in range(5))
    gate.set()


def test_p08_what_has_not_started_goes_back_and_what_runs_ends(slots: Slots) -> None:
    gate, running, ended = threading.Event(), threading.Semaphore(0), threading.Semaphore(0)

    def hold(_: Attempt) -> Outcome:
        running.release()
        gate.wait(30)
        ended.release()
        return DONE

    for _ in range(2):
        slots.put(attempt(hold))
    assert all(running.acquire(timeout=PATIENCE_S) for _ in range(2))
    behind = [attempt(hold) for _ in range(3)]
    for each in behind:
        slots.put(each)
    assert slots.hand_back() == 3
    assert all(noted(each).back.is_set() for each in behind)
    assert slots.running() == 2
    gate.set()
    assert slots.stop(within())
    assert all(ended.acquire(timeout=0) for _ in range(2))


def test_what_comes_after_the_drain_began_goes_back(slots: Slots) -> None:
    slots.hand_back()
    late = attempt(lambda _: DONE)
    slots.put(late)
    slots.stop(within())
    eventually(noted(late).back.is_set)


def test_what_cannot_be_decided_keeps_its_slot_and_is_tried_again(slots: Slots) -> None:
    tries, decided = [], threading.Event()

    def third_time(_: Attempt) -> Outcome:
        tries.append(1)
        if len(tries) < 3:
            return Returned("cannot decide")
        decided.set()
        return DONE

    slots.put(attempt(third_time))
    assert decided.wait(PATIENCE_S)


def test_what_cannot_be_decided_goes_back_when_the_process_ends(slots: Slots) -> None:
    tried = threading.Event()

    def cannot(_: Attempt) -> Outcome:
        tried.set()
        return Returned("cannot decide")

    undecided = attempt(cannot)
    slots.put(undecided)
    assert tried.wait(PATIENCE_S)
    assert slots.stop(within())
    assert noted(undecided).back.is_set()


def test_p12_a_job_that_cannot_even_be_settled_stays_with_the_broker_and_no_thread_dies_of_it(slots: Slots) -> None:
    tries = threading.Semaphore(0)

    def cannot_settle(_: Attempt) -> Outcome:
        tries.release()
        raise MemoryError

    bad = [attempt(cannot_settle) for _ in range(2)]
    for each in bad:
        slots.put(each)
    assert all(tries.acquire(timeout=PATIENCE_S) for _ in range(2))
    assert slots.stop(within())
    assert not tries.acquire(timeout=0), "what ran is not run again in place: its effects may be there"
    assert all(noted(each).told == ["back"] for each in bad)


@pytest.mark.parametrize("is_async", [False, True])
def test_p12_what_could_not_be_settled_keeps_its_slot_until_it_is(
    slots: Slots, coroutines: Coroutines, is_async: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for runner in ("slots", "coroutines"):
        monkeypatch.setattr(f"workers.execution.{runner}.UNSETTLED_PAUSE_S", 0.01)
    settled: SimpleQueue[Outcome | None] = SimpleQueue()

    def first_not(attempt: Attempt) -> Outcome:
        settled.put(attempt.outcome)
        if attempt.outcome is None:
            attempt.outcome = DONE
            return Returned(UNSETTLED)
        return DONE

    async def afirst_not(attempt: Attempt) -> Outcome:
        return first_not(attempt)

    each = attempt(afirst_not if is_async else first_not)
    (coroutines if is_async else slots).put(each)
    assert [settled.get(timeout=PATIENCE_S) for _ in range(2)] == [None, DONE]
    assert noted(each).told == []


def test_slots_stop_when_never_started() -> None:
    assert Slots(seats(2)).stop(within())
    assert Coroutines(seats(2)).stop(within())


def test_coroutines_run_side_by_side_up_to_their_number(coroutines: Coroutines) -> None:
    most, now, done = [], [], threading.Semaphore(0)

    async def watched(_: Attempt) -> Outcome:
        now.append(1)
        most.append(len(now))
        await asyncio.sleep(0.01)
        now.pop()
        done.release()
        return DONE

    for _ in range(10):
        coroutines.put(attempt(watched))
    assert all(done.acquire(timeout=PATIENCE_S) for _ in range(10))
    assert max(most) == 2


def test_coroutines_hand_back_what_waits_and_cancel_what_overruns(coroutines: Coroutines) -> None:
    running, cancelled = threading.Semaphore(0), threading.Semaphore(0)

    async def forever(_: Attempt) -> Outcome:
        running.release()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.release()
            return Returned("shutdown")
        return DONE

    running_ones = [attempt(forever) for _ in range(2)]
    for each in running_ones:
        coroutines.put(each)
    assert all(running.acquire(timeout=PATIENCE_S) for _ in range(2))
    behind = attempt(forever)
    coroutines.put(behind)
    assert not coroutines.stop(within(0.1))
    assert noted(behind).back.is_set()
    assert all(cancelled.acquire(timeout=PATIENCE_S) for _ in range(2))
    assert all(noted(each).back.is_set() for each in running_ones)


@pytest.mark.parametrize("how", ["stop", "exit"])
def test_a_job_that_ends_the_event_loop_ends_only_itself(coroutines: Coroutines, how: str) -> None:
    done = threading.Semaphore(0)

    async def ends_the_loop(_: Attempt) -> Outcome:
        loop = asyncio.get_running_loop()
        if how == "stop":
            loop.stop()
        else:
            loop.call_soon(sys.exit, 3)
        return DONE

    async def fine(_: Attempt) -> Outcome:
        done.release()
        return DONE

    coroutines.put(attempt(ends_the_loop))
    for _ in range(3):
        coroutines.put(attempt(fine))
    assert all(done.acquire(timeout=PATIENCE_S) for _ in range(3))
    assert coroutines.stop(within())


def test_a_job_that_cancels_all_tasks_loses_no_neighbour_and_no_seat() -> None:
    coroutines, done = Coroutines(seats(3)), threading.Semaphore(0)

    async def cancels_all(_: Attempt) -> Outcome:
        for task in asyncio.all_tasks():
            task.cancel()
        return DONE

    async def fine(_: Attempt) -> Outcome:
        done.release()
        return DONE

    neighbours = [attempt(fine) for _ in range(2)]
    for each in (attempt(cancels_all), *neighbours):
        coroutines.put(each)  # before the loop runs: all three have a task before the first takes its first step
    coroutines.start()

    assert all(noted(each).back.wait(PATIENCE_S) for each in neighbours)
    assert not done.acquire(blocking=False)
    for _ in range(6):
        coroutines.put(attempt(fine))
    assert all(done.acquire(timeout=PATIENCE_S) for _ in range(6))
    assert coroutines.stop(within())


def test_what_waits_to_be_tried_again_goes_back_when_a_job_cancels_all_tasks(coroutines: Coroutines) -> None:
    async def not_now(_: Attempt) -> Outcome:
        ran.release()
        return Returned("no database")

    async def cancels_all(_: Attempt) -> Outcome:
        for task in asyncio.all_tasks():
            task.cancel()
        return DONE

    ran, waits = threading.Semaphore(0), attempt(not_now)
    coroutines.put(waits)
    assert ran.acquire(timeout=PATIENCE_S)
    coroutines.put(attempt(cancels_all))

    assert noted(waits).back.wait(PATIENCE_S)
    assert coroutines.stop(within())


def test_a_drain_goes_on_when_a_job_cancels_all_tasks(coroutines: Coroutines) -> None:
    running, drains = threading.Semaphore(0), threading.Event()

    async def cancels_all(_: Attempt) -> Outcome:
        running.release()
        while len(asyncio.all_tasks()) < 2:  # its own, and the drain's
            await asyncio.sleep(0.01)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        drains.set()
        return DONE

    coroutines.put(attempt(cancels_all))
    assert running.acquire(timeout=PATIENCE_S)
    assert coroutines.stop(within())
    assert drains.is_set()


def test_a_loop_that_cannot_run_rests_before_it_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[BaseException] = []
    coroutines, done = Coroutines(seats(1), on_failure=told.append), threading.Event()
    begun_s: list[float] = []
    run_forever = asyncio.BaseEventLoop.run_forever

    def fails_for_a_while(loop: asyncio.BaseEventLoop) -> None:
        begun_s.append(time.monotonic())
        if begun_s[-1] < begun_s[0] + 1.0:
            raise RuntimeError("not now")
        run_forever(loop)

    async def fine(_: Attempt) -> Outcome:
        done.set()
        return DONE

    monkeypatch.setattr(asyncio.BaseEventLoop, "run_forever", fails_for_a_while)
    coroutines.start()
    coroutines.put(attempt(fine))

    assert done.wait(PATIENCE_S)
    assert 1 <= len(told) <= 100
    assert coroutines.stop(within())


def test_a_coroutine_on_the_loop_can_be_called_from_a_thread(coroutines: Coroutines) -> None:
    async def answer() -> int:
        return 42

    assert coroutines.call(answer(), within()) == 42


def test_what_comes_when_the_threads_have_ended_goes_back_at_once(slots: Slots) -> None:
    assert slots.stop(within())
    late = attempt(lambda _: DONE)
    slots.put(late)
    assert noted(late).back.is_set()


def test_nothing_stays_in_a_waiting_room_that_hands_back() -> None:
    looked, gate = threading.Event(), threading.Event()

    def look(_batch: list[Attempt]) -> None:
        looked.set()
        gate.wait(30)

    room = WaitingRoom("room", look)
    room.start()
    seen, late = attempt(lambda _: DONE), attempt(lambda _: DONE)
    room.put(seen)
    assert looked.wait(PATIENCE_S)
    assert room.hand_back() == 0
    room.put(late)
    assert noted(late).back.is_set()
    gate.set()
    eventually(noted(seen).back.is_set)
    assert room.stop(within())
