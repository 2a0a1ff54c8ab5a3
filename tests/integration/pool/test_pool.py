"""CPU steps in real processes: kills, limits, what cannot cross, who waits, and what a broken pool does."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from smena.clock import SYSTEM, Deadline
from smena.errors import (
    NotPicklable,
    OutOfMemory,
    PoolBroken,
    PoolBusy,
    Shutdown,
    StepDied,
    StepFailed,
    StepTooLarge,
    TimedOut,
)
from tests.fixtures import pool_steps as steps
from tests.fixtures.eventually import PATIENCE_S, eventually
from tests.integration.pool.conftest import MakePool, Told
from workers.execution.pool import DEATHS_IN_A_ROW
from workers.execution.pool_process import Server


def in_thread(call: Callable[..., Any], *args: Any) -> Future[Any]:
    future: Future[Any] = Future()

    def work() -> None:
        try:
            future.set_result(call(*args))
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


def told_in(path: Path) -> list[int]:
    eventually(path.exists)
    return [int(word) for word in path.read_text().split()]


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def test_nothing_is_started_before_the_first_step(make_pool: MakePool) -> None:
    pool = make_pool(processes=2)
    before = threading.active_count()
    pool.start()
    assert threading.active_count() == before
    assert pool.standing() == {"busy": 0, "idle": 0, "waiting": 0}
    assert pool.run(steps.add, (1, 2)) == 3
    assert pool.standing() == {"busy": 0, "idle": 1, "waiting": 0}


async def test_a_coroutine_awaits_its_step_while_the_loop_goes_on(make_pool: MakePool) -> None:
    pool = make_pool(processes=2)
    await pool.arun(steps.add, (0, 0))
    slow = asyncio.create_task(pool.arun(steps.nap, (0.5,)))
    turns = 0
    while not slow.done():
        await asyncio.sleep(0.005)
        turns += 1
    assert turns > 10
    assert await slow != os.getpid()


def test_eight_threads_share_two_processes(make_pool: MakePool) -> None:
    pool = make_pool(processes=2)
    with ThreadPoolExecutor(8) as threads:
        sums = list(threads.map(lambda number: pool.run(steps.add, (number, 1)), range(400)))
    assert sums == list(range(1, 401))
    eventually(lambda: pool.standing()["busy"] == 0)
    assert pool.standing()["idle"] <= 2


@pytest.mark.parametrize("victim", ["running", "idle"])
def test_p30_a_killed_pool_process_fails_only_its_own_step(make_pool: MakePool, tmp_path: Path, victim: str) -> None:
    pool = make_pool(processes=2)
    doomed = in_thread(pool.run, steps.note_and_nap, (str(tmp_path / "doomed"), 600))
    [pid] = told_in(tmp_path / "doomed")
    other = in_thread(pool.run, steps.note_and_nap, (str(tmp_path / "other"), 1.0))
    told_in(tmp_path / "other")
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(StepDied) as died:
        doomed.result(PATIENCE_S)
    assert died.value.facts["how"] == "SIGKILL"
    assert other.result(PATIENCE_S) is None
    if victim == "idle":
        os.kill(pool.run(steps.pid, ()), signal.SIGKILL)
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda one: pool.run(steps.add, (one, 1)), range(50))) == list(range(1, 51))


def test_p30_a_step_that_had_not_begun_is_given_to_another_process(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(processes=1)
    for number in range(20):
        stopped = pool.run(steps.pid, ())
        os.kill(stopped, signal.SIGSTOP)
        step = in_thread(pool.run, steps.note_and_add, (str(tmp_path / str(number)), number, 1))
        eventually(lambda: pool.standing()["busy"] == 1)
        os.kill(stopped, signal.SIGKILL)
        assert step.result(PATIENCE_S) == number + 1
        assert (tmp_path / str(number)).read_text() == "began\n"


def test_p30_kills_at_any_moment_neither_lose_nor_repeat_a_step(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(processes=2)
    over = threading.Event()
    ended: list[int] = []
    killed = 0

    def kill_them() -> None:
        nonlocal killed
        while not over.wait(0.011):
            seen = len(ended)
            for process in list(pool._desk._living)[:1]:
                killed += 1
                os.kill(process.pid, signal.SIGKILL)
                if killed % 5 == 0:  # on a busy machine none would live long enough to begin
                    eventually(lambda seen=seen: len(ended) > seen or over.is_set())  # type: ignore[misc]

    def step(number: int) -> bool:
        while True:
            try:
                came = pool.run(steps.note_and_add, (str(tmp_path / str(number)), number, 1)) == number + 1
            except PoolBroken:  # three in a row: the job would wait for it, as here
                time.sleep(0.05)
                continue
            except StepDied:
                came = False
            ended.append(number)
            return came

    killer = in_thread(kill_them)
    with ThreadPoolExecutor(4) as threads:
        came_back = list(threads.map(step, range(200)))
    over.set()
    killer.result(PATIENCE_S)
    assert killed > 0
    began = [len((tmp_path / str(n)).read_text().split()) if (tmp_path / str(n)).exists() else 0 for n in range(200)]
    assert max(began) == 1
    assert all(count == 1 for count, came in zip(began, came_back, strict=True) if came)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_step_out_of_time_ends_with_all_it_has_started(make_pool: MakePool, tmp_path: Path, is_async: bool) -> None:
    pool = make_pool(processes=1)
    pool.run(steps.add, (1, 1))
    family = tmp_path / "family"

    def run(seconds: float) -> None:
        args = (steps.with_family, (str(family),), seconds)
        asyncio.run(pool.arun(*args)) if is_async else pool.run(*args)

    for seconds in (3.0, 12.0, 48.0):  # on a busy machine the first may pass before all are there
        with pytest.raises(TimedOut) as late:
            run(seconds)
        assert late.value.facts["timeout_s"] == seconds
        if family.exists():
            break
    members = told_in(family)
    assert len(members) == 4
    assert all(is_gone(pid) for pid in members)
    assert pool.run(steps.add, (1, 1)) == 2


async def test_a_cancelled_step_has_ended_before_its_caller_goes_on(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(processes=1)
    task = asyncio.create_task(pool.arun(steps.note_and_nap, (str(tmp_path / "pid"), 600)))
    while not (tmp_path / "pid").exists():
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert is_gone(told_in(tmp_path / "pid")[0])
    assert await pool.arun(steps.add, (1, 1)) == 2


async def test_a_cancelled_wait_costs_the_pool_no_process(make_pool: MakePool) -> None:
    pool = make_pool(processes=1)
    for _ in range(20):
        held = asyncio.create_task(pool.arun(steps.nap, (0.01,)))
        await asyncio.sleep(0)
        waiting = [asyncio.create_task(pool.arun(steps.nap, (0.0,))) for _ in range(5)]
        await asyncio.sleep(0.01)
        for task in waiting[::2]:
            task.cancel()
        await asyncio.gather(held, *waiting, return_exceptions=True)
        assert await pool.arun(steps.add, (1, 1)) == 2
    assert pool.standing() == {"busy": 0, "idle": 1, "waiting": 0}


def test_a_step_that_crashes_tells_the_signal(make_pool: MakePool) -> None:
    pool = make_pool(processes=1)
    with pytest.raises(StepDied) as died:
        pool.run(steps.segfault, ())
    assert died.value.facts["how"] == "SIGSEGV"
    assert died.value.facts["peak_mib"] > 0
    assert pool.run(steps.add, (1, 1)) == 2


@pytest.mark.parametrize("is_async", [False, True])
def test_p30_a_step_that_dies_of_a_real_time_signal_tells_it_too(make_pool: MakePool, is_async: bool) -> None:
    pool = make_pool(processes=1)
    deadly = (steps.die_of, (signal.SIGRTMIN + 6,))
    with pytest.raises(StepDied) as died:
        asyncio.run(asyncio.wait_for(pool.arun(*deadly), PATIENCE_S)) if is_async else pool.run(*deadly)
    assert died.value.facts["how"] == "SIGRTMIN+6"
    assert pool.run(steps.add, (1, 1)) == 2


def test_a_step_may_not_allocate_more_than_its_limit(make_pool: MakePool) -> None:
    pool = make_pool(processes=1, max_memory_mib=256)
    assert pool.run(steps.hoard, (32,)) == 32 << 20
    before = pool.run(steps.pid, ())
    with pytest.raises(OutOfMemory) as refused:
        pool.run(steps.hoard, (400,))
    assert "resident_mib" not in refused.value.facts  # it was refused, not seen to have taken it
    assert pool.run(steps.pid, ()) != before


def test_memory_that_no_limit_counts_is_seen_from_outside(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(processes=1, max_memory_mib=200)
    with pytest.raises(OutOfMemory) as greedy:
        pool.run(steps.hoard_outside, (300, str(tmp_path / "pid")), PATIENCE_S)
    assert greedy.value.facts["resident_mib"] >= 200  # in whole MiB, of what was more
    assert pool.run(steps.add, (1, 1)) == 2


def test_memory_of_what_a_step_has_started_counts_with_its_own(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(processes=1, max_memory_mib=400)
    with pytest.raises(OutOfMemory) as greedy:
        pool.run(steps.hoard_in_programs, (250, 2, str(tmp_path / "family")), PATIENCE_S)
    assert greedy.value.facts["resident_mib"] >= 400
    family = told_in(tmp_path / "family")
    eventually(lambda: all(is_gone(pid) for pid in family))
    assert pool.run(steps.add, (1, 1)) == 2


def test_what_the_kernel_ends_at_the_bound_of_its_group_was_out_of_memory(make_pool: MakePool, tmp_path: Path) -> None:
    """The group is played by a folder: here it bounds nothing, and says what the kernel would have said."""
    pool = make_pool(processes=1, cgroup=str(tmp_path / "group"), max_memory_mib=256)
    (tmp_path / "group").mkdir()
    step = in_thread(pool.run, steps.note_and_nap, (str(tmp_path / "pid"), 600))
    [pid] = told_in(tmp_path / "pid")
    group = tmp_path / "group" / f"smena-step-{pid}"
    assert (group / "memory.max").read_text() == str(256 << 20)
    assert (group / "cgroup.procs").read_text() == str(pid)
    (group / "memory.events").write_text("low 0\noom 1\noom_kill 2\n")
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(OutOfMemory):
        step.result(PATIENCE_S)
    assert (group / "cgroup.kill").read_text() == "1"


def test_memory_that_a_step_shares_with_its_forks_counts_once(make_pool: MakePool) -> None:
    assert make_pool(processes=1, max_memory_mib=300).run(steps.share_with_forks, (150, 4), PATIENCE_S) == 4


async def test_p30_kills_and_cancellations_at_any_moment_leave_a_pool_that_works(
    make_pool: MakePool, tmp_path: Path
) -> None:
    """A step is cancelled while it waits, is picked up or runs, and processes are killed under all of it."""
    pool = make_pool(processes=2)
    chance = random.Random(30)
    outcomes: Counter[str] = Counter()

    async def step(number: int) -> None:
        task = asyncio.create_task(pool.arun(steps.note_and_add, (str(tmp_path / str(number)), number, 1)))
        await asyncio.sleep(chance.uniform(0, 0.004))
        if number % 3 == 0:
            task.cancel()
        try:
            assert await task == number + 1
            outcomes["came back"] += 1
        except asyncio.CancelledError:
            outcomes["cancelled"] += 1
        except StepDied:
            outcomes["died"] += 1
        except PoolBroken:
            outcomes["broken"] += 1
            await asyncio.sleep(0.05)

    for number in range(0, 300, 6):
        if number % 4 == 0:
            for process in list(pool._desk._living)[:1]:
                os.kill(process.pid, signal.SIGKILL)
        await asyncio.gather(*(step(one) for one in range(number, number + 6)))

    began = [len(path.read_text().split()) for path in tmp_path.iterdir()]
    assert max(began) == 1
    assert min(outcomes["came back"], outcomes["cancelled"]) > 0
    assert await pool.arun(steps.add, (1, 1)) == 2
    assert pool.standing()["waiting"] == pool.standing()["busy"] == 0
    assert {process.pid for process in pool._desk._living} == {process.pid for process in pool._desk._idle}


def test_a_process_is_replaced_after_its_calls_and_above_its_memory(make_pool: MakePool) -> None:
    pool = make_pool(processes=1, max_calls=3)
    assert len({pool.run(steps.pid, ()) for _ in range(9)}) == 3


@pytest.mark.parametrize(
    ("step", "args", "error", "names"),
    [
        (lambda: None, (), NotPicklable, "lambda"),
        (steps.add, (threading.Lock(), 1), NotPicklable, "arguments"),
        (steps.give_lambda, (), NotPicklable, "result"),
        (steps.blob, (2_000_000,), StepTooLarge, "result"),
        (steps.size_of, (bytes(2_000_000),), StepTooLarge, "arguments"),
        (steps.fail_in_two_words, (), StepFailed, "TwoWords"),
        (steps.leave, (), StepFailed, "SystemExit"),
        (steps.fail, ("no",), ValueError, "no"),
    ],
)
def test_what_cannot_cross_is_a_clear_error_and_costs_no_process(
    make_pool: MakePool, step: Callable[..., Any], args: tuple[Any, ...], error: type[Exception], names: str
) -> None:
    pool = make_pool(processes=1, max_argument_bytes=1_000_000, max_result_bytes=1_000_000)
    before = pool.run(steps.pid, ())
    with pytest.raises(error, match=names):
        pool.run(step, args)
    assert pool.run(steps.pid, ()) == before


def test_an_error_carries_where_it_was_raised(make_pool: MakePool) -> None:
    with pytest.raises(ValueError, match="here") as error:
        make_pool(processes=1).run(steps.fail, ("here",))
    assert "pool_steps.py" in error.value.__notes__[0]


def test_large_values_travel_whole(make_pool: MakePool) -> None:
    pool = make_pool(processes=1)
    assert pool.run(steps.size_of, (bytes(20_000_000),)) == 20_000_000
    assert len(asyncio.run(pool.arun(steps.blob, (20_000_000,)))) == 20_000_000


def test_a_full_queue_puts_the_job_off(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(processes=1, queue=1)
    held = in_thread(pool.run, steps.note_until, (str(tmp_path / "held"), str(tmp_path / "go")))
    told_in(tmp_path / "held")
    waiting = in_thread(pool.run, steps.add, (1, 1))
    eventually(lambda: pool.standing()["waiting"] == 1)
    with pytest.raises(PoolBusy, match="too many"):
        pool.run(steps.add, (1, 1))
    (tmp_path / "go").touch()
    assert waiting.result(PATIENCE_S) == 2
    held.result(PATIENCE_S)


@pytest.mark.parametrize("is_async", [False, True])
def test_who_waits_too_long_is_put_off(make_pool: MakePool, tmp_path: Path, is_async: bool) -> None:
    pool = make_pool(processes=1)
    held = in_thread(pool.run, steps.note_until, (str(tmp_path / "held"), str(tmp_path / "go")))
    told_in(tmp_path / "held")
    pool._bounds = pool._bounds.model_copy(update={"wait_s": 0.1})
    with pytest.raises(PoolBusy, match="free"):
        _ = asyncio.run(pool.arun(steps.add, (1, 1))) if is_async else pool.run(steps.add, (1, 1))
    assert pool.standing()["waiting"] == 0
    (tmp_path / "go").touch()
    held.result(PATIENCE_S)


def test_stopping_ends_running_steps_as_shutdown(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(processes=1)
    running = in_thread(pool.run, steps.note_and_nap, (str(tmp_path / "pid"), 600))
    [pid] = told_in(tmp_path / "pid")
    waiting = in_thread(pool.run, steps.add, (1, 1))
    eventually(lambda: pool.standing()["waiting"] == 1)
    assert pool.stop(Deadline.within(PATIENCE_S, SYSTEM))
    for step in (running, waiting):
        with pytest.raises(Shutdown):
            step.result(PATIENCE_S)
    assert is_gone(pid)
    with pytest.raises(Shutdown):
        pool.run(steps.add, (1, 1))


def test_p30_a_pool_whose_steps_die_one_after_the_other_takes_none_until_one_comes_back(
    make_pool: MakePool, told: Told
) -> None:
    pool = make_pool(processes=1)
    for _ in range(DEATHS_IN_A_ROW):
        with pytest.raises(StepDied):
            pool.run(steps.kill_itself, ())
    assert told[:1] == [True]
    eventually(lambda: told == [True, False])
    assert pool.run(steps.add, (1, 1)) == 2


def test_p30_a_pool_that_cannot_start_is_broken_until_it_can(make_pool: MakePool, told: Told) -> None:
    working: list[Callable[[], Server]] = []

    def start() -> Server:
        return working[0]() if working else Server(["/bin/false"])

    pool = make_pool(start, processes=1)
    for _ in range(DEATHS_IN_A_ROW):
        with pytest.raises(PoolBroken):
            pool.run(steps.add, (1, 1))
    assert pool.is_broken
    assert told == [True]
    with pytest.raises(PoolBroken):
        pool.run(steps.add, (1, 1))
    working.append(make_pool(processes=1)._keeper._launch)
    eventually(lambda: not pool.is_broken)
    assert pool.run(steps.add, (1, 1)) == 2


def test_the_death_of_the_server_ends_no_step(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(processes=2)
    running = in_thread(pool.run, steps.note_and_nap, (str(tmp_path / "pid"), 1.0))
    told_in(tmp_path / "pid")
    server = pool._keeper._server
    assert server is not None
    server._program.kill()
    assert running.result(PATIENCE_S) is None
    assert len({in_thread(pool.run, steps.nap, (0.3,)).result(PATIENCE_S) for _ in range(2)} | {0}) >= 2
