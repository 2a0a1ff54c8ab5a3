"""Time limits inside one process: who is interrupted, and that nobody else is."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

from smena.book import Book, Registry, TimeLimit
from smena.clock import SYSTEM, Deadline, MovedClock
from smena.context import Context, time_left_s
from smena.errors import Misdeclared, Misused, Overdue, TimedOut, TimeLimitExceeded, TimeUp
from smena.job import Job
from smena.settings.groups import Retry as RetryDefaults
from smena.settings.groups import Worker as WorkerSettings
from smena.telemetry.metric import STEP_TIME, TIMES_UP
from smena.telemetry.plain_text import error_text
from smena.telemetry.tally import Board
from tests.fixtures.eventually import eventually
from tests.fixtures.no_recorder import NoRecorder
from tests.fixtures.noted_delivery import NotedDelivery
from workers.execution.binding import bind_actors
from workers.execution.coroutines import Coroutines
from workers.execution.outside import OUTSIDE_S
from workers.execution.seat import Seat
from workers.execution.slots import Slots
from workers.execution.time_watch import TimeWatch
from workers.middleware.arguments import Arguments
from workers.middleware.attempt import Attempt
from workers.middleware.outcome import Dead, Outcome, Retry, Snooze
from workers.middleware.rings import Ring
from workers.middleware.settle import Settle
from workers.middleware.time_limit import TimeLimit as TimeLimitRing
from workers.middleware.tracing import Tracing
from workers.middleware.verdict import Judge

book = Book("limits")
gate = threading.Event()


def in_small_sleeps(seconds: float = 30) -> None:
    ends_s = time.monotonic() + seconds
    while time.monotonic() < ends_s and not gate.is_set():
        time.sleep(0.005)


async def in_small_awaits() -> None:
    while not gate.is_set():
        await asyncio.sleep(0.005)


@book.actor(time_limit=0.2)
def sleeps() -> None:
    in_small_sleeps()


@book.actor(time_limit=0.2)
def swallows_errors() -> None:
    while not gate.is_set():
        with contextlib.suppress(Exception):  # the fault
            in_small_sleeps()


@book.actor(time_limit=TimeLimit(0.2, grace_s=0.3))
def swallows_all() -> None:
    while not gate.is_set():
        with contextlib.suppress(BaseException):  # the fault
            in_small_sleeps()


@book.actor(time_limit=TimeLimit(0.2, grace_s=0.3))
async def aswallows_all() -> None:
    while not gate.is_set():
        with contextlib.suppress(BaseException):  # the fault
            await in_small_awaits()
        await asyncio.sleep(0.01)


@book.actor(time_limit=TimeLimit(0.2, grace_s=0.3))
async def holds_the_loop() -> None:
    in_small_sleeps()


@book.actor(time_limit=0.2)
def cleans_up_and_returns() -> str:
    try:
        in_small_sleeps()
    except TimeUp:
        return "cleaned up"
    return ""


@book.actor(time_limit=0.2)
async def asleeps() -> None:
    await in_small_awaits()


@book.actor()
def endless() -> None:
    in_small_sleeps()


@book.actor()
async def aendless() -> None:
    await in_small_awaits()


@book.actor()
def quick(ctx: Context, /) -> float | None:
    assert time_left_s() == ctx.left_s() or ctx.left_s() is not None
    return ctx.left_s()


@book.actor(time_limit=60)
def takes_long() -> None:
    in_small_sleeps()


@book.actor(time_limit=20)
def steps(ctx: Context, /) -> str:
    try:
        with ctx.step("provider", timeout_s=1) as step:
            assert 0 < step.left_s() <= 1
            in_small_sleeps()
    except TimedOut as error:
        left_s = ctx.left_s()
        assert left_s is not None
        assert left_s > 1
        return str(error.facts["step"])
    return ""


@book.actor(time_limit=20)
async def asteps(ctx: Context, /) -> str:
    try:
        async with ctx.step("provider", timeout_s=0.2):
            await in_small_awaits()
    except TimedOut as error:
        return str(error.facts["step"])
    return ""


@book.actor(time_limit=0.2)
def outer_is_sooner(ctx: Context, /) -> None:
    with ctx.step("provider", timeout_s=20):
        in_small_sleeps()


@book.actor(time_limit=20)
def step_fails_the_job(ctx: Context, /) -> None:
    with ctx.step("provider", timeout_s=0.2):
        in_small_sleeps()


@book.actor()
async def plain_step_in_a_coroutine(ctx: Context, /) -> None:
    with ctx.step("provider", timeout_s=5):
        pass


handled: list[str] = []


def note_expiry(ctx: Context, /, word: str) -> str:
    handled.append(f"{ctx.actor} {word}")
    return "expired"


async def anote_expiry(word: str) -> str:
    handled.append(word)
    return "expired"


@book.actor(on_expired=note_expiry)
def has_handler(word: str) -> None:
    in_small_sleeps()


@book.actor(on_expired=anote_expiry)
async def ahas_handler(word: str) -> None:
    await in_small_awaits()


def hangs(word: str) -> str:
    gate.wait()
    return word


class Mute(Exception):
    def __str__(self) -> str:
        return hangs("mute")


@book.actor(time_limit=TimeLimit(0.2, grace_s=0.2))
def hangs_in_its_arguments(word: Annotated[str, AfterValidator(hangs)]) -> None: ...


@book.actor(time_limit=TimeLimit(0.2, grace_s=0.2))
async def ahangs_in_its_arguments(word: Annotated[str, AfterValidator(hangs)]) -> None: ...


@book.actor(time_limit=TimeLimit(0.2, grace_s=0.2))
def hangs_in_its_error() -> None:
    raise Mute


@book.actor(time_limit=TimeLimit(0.2, grace_s=0.2))
async def ahangs_in_its_error() -> None:
    raise Mute


class Bench:
    """The threads, the event loop and the watch over both, as a worker has them, without services."""

    def __init__(self, outside_s: float) -> None:
        self.board = Board()
        seats = [Seat(slot, NoRecorder(), self.board.tally()) for slot in range(8)]
        self.slots, self.coroutines = Slots(seats[:4]), Coroutines(seats[4:])
        self.settled: dict[str, list[Outcome]] = {}
        self.stuck: list[str] = []
        self.watch = TimeWatch(
            seats[:4],
            seats[4:],
            self.coroutines,
            self.board,
            lambda _seat, attempt: self.stuck.append(attempt.job.id),
            outside_s=outside_s,
        )
        rings: list[Ring] = [
            Tracing(lambda attempt: Context(attempt.job, actor=attempt.actor.name, watch=attempt.watch)),
            Settle(Judge(SYSTEM), self),
            TimeLimitRing(SYSTEM),
            Arguments(),
        ]
        limits = WorkerSettings(time_limit_s=0, time_limit_grace_s=20)
        self.actors = bind_actors(Registry([book]), RetryDefaults(), rings, None, limits)
        for service in (self.slots, self.coroutines, self.watch):
            service.start()

    def settle(self, attempt: Attempt, outcome: Retry | Snooze | Dead) -> None:
        if not isinstance(outcome, Snooze) and outcome.error is not None:
            error_text(outcome.error)  # as whoever writes the next message does
        self.settled.setdefault(attempt.job.id, []).append(outcome)

    def put(self, actor: str, *args: Any, deadline_ms: int | None = None) -> Attempt:
        bound = self.actors[f"limits.{actor}"]
        attempt = Attempt(NotedDelivery(), Job(actor=bound.name, queue="q", args=args, deadline_ms=deadline_ms), bound)
        (self.coroutines if bound.is_async else self.slots).put(attempt)
        return attempt

    def outcome(self, attempt: Attempt) -> Outcome | None:
        """Return what the attempt came to, once it is settled."""
        assert isinstance(attempt.delivery, NotedDelivery)
        eventually(lambda: attempt.delivery.told or attempt.job.id in self.settled)  # type: ignore[attr-defined]
        return self.settled.get(attempt.job.id, [None])[0]

    def error(self, attempt: Attempt) -> BaseException | None:
        outcome = self.outcome(attempt)
        assert isinstance(outcome, Retry | Dead), outcome
        return outcome.error

    def close(self) -> None:
        gate.set()
        eventually(lambda: not self.slots.running() and not self.coroutines.running())
        deadline = Deadline.within(30, SYSTEM)
        for service in (self.watch, self.slots, self.coroutines):
            service.stop(deadline)
        gate.clear()


@contextmanager
def running(outside_s: float = OUTSIDE_S) -> Iterator[Bench]:
    """Run a bench on which code beside the actors may take that long."""
    bench = Bench(outside_s)
    try:
        yield bench
    finally:
        bench.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    with running() as bench:
        yield bench


@pytest.mark.parametrize("actor", ["sleeps", "asleeps", "swallows_errors"])
def test_p26_a_job_over_its_limit_is_interrupted_and_tried_again_and_no_neighbour_is(bench: Bench, actor: str) -> None:
    neighbours = [bench.put("endless"), bench.put("aendless")]
    late = bench.put(actor)
    assert isinstance(bench.error(late), TimeLimitExceeded)
    assert all(neighbour.job.id not in bench.settled for neighbour in neighbours)
    assert bench.board.snapshot()["counters"][TIMES_UP.name] == {f"limits.{actor}|soft": 1}
    assert bench.stuck == []


def test_a_job_that_cleans_up_when_its_time_is_up_and_returns_is_done(bench: Bench) -> None:
    attempt = bench.put("cleans_up_and_returns")
    assert bench.outcome(attempt) is None
    assert attempt.delivery.told == ["ack"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("actor", ["swallows_all", "aswallows_all", "holds_the_loop"])
def test_p26_what_does_not_end_in_its_grace_is_told_once_and_keeps_its_message(bench: Bench, actor: str) -> None:
    attempt = bench.put(actor)
    eventually(lambda: bench.stuck)
    assert bench.stuck == [attempt.job.id]
    assert attempt.job.id not in bench.settled
    assert attempt.delivery.told == []  # type: ignore[attr-defined]
    short = Deadline.within(10, SYSTEM)
    assert not (bench.slots if actor == "swallows_all" else bench.coroutines).finish(short)
    assert not short.passed(), "a drain does not wait for what is stuck"


@pytest.mark.parametrize(
    ("actor", "args"),
    [
        ("hangs_in_its_arguments", ["word"]),
        ("ahangs_in_its_arguments", ["word"]),
        ("hangs_in_its_error", []),
        ("ahangs_in_its_error", []),
    ],
)
def test_p26_what_hangs_in_code_of_its_own_beside_the_actor_is_told_and_nobody_else(
    actor: str, args: list[str]
) -> None:
    with running(outside_s=0.5) as bench:
        neighbours = [bench.put("endless"), bench.put("aendless")]
        attempt = bench.put(actor, *args)
        eventually(lambda: bench.stuck)
        looked = bench.watch.tick
        eventually(lambda: bench.watch.tick > looked + 10)
        assert bench.stuck == [attempt.job.id]
        assert attempt.delivery.told == []  # type: ignore[attr-defined]
        assert all(neighbour.job.id not in bench.settled for neighbour in neighbours)


def test_a_neighbour_that_holds_the_loop_up_uses_up_nobodys_grace(bench: Bench) -> None:
    late = bench.put("asleeps")
    holder = bench.put("holds_the_loop")
    eventually(lambda: bench.stuck)
    assert bench.stuck == [holder.job.id]
    gate.set()
    assert isinstance(bench.error(late), TimeLimitExceeded)


@pytest.mark.parametrize("actor", ["endless", "aendless"])
def test_a_job_whose_deadline_passes_while_it_runs_ends_there_as_expired(bench: Bench, actor: str) -> None:
    outcome = bench.outcome(bench.put(actor, deadline_ms=SYSTEM.now_ms() + 200))
    assert isinstance(outcome, Dead)
    assert outcome.reason == "expired"


@pytest.mark.parametrize("actor", ["endless", "aendless"])
def test_a_job_whose_deadline_has_passed_does_not_begin(bench: Bench, actor: str) -> None:
    attempt = bench.put(actor, deadline_ms=SYSTEM.now_ms() - 1)
    assert isinstance(bench.error(attempt), Overdue)
    assert not attempt.began


@pytest.mark.parametrize("actor", ["has_handler", "ahas_handler"])
@pytest.mark.parametrize("left_ms", [-1, 200])
def test_the_expiry_handler_is_called_in_the_actors_place(bench: Bench, actor: str, left_ms: int) -> None:
    handled.clear()
    attempt = bench.put(actor, "word", deadline_ms=SYSTEM.now_ms() + left_ms)
    assert bench.outcome(attempt) is None
    assert attempt.delivery.told == ["ack"]  # type: ignore[attr-defined]
    assert handled == ["limits.has_handler word" if actor == "has_handler" else "word"]


def test_a_retry_does_not_wait_beyond_the_deadline() -> None:
    clock = MovedClock(datetime(2026, 1, 1, tzinfo=UTC))
    job = Job(actor="a.b", queue="q", deadline_ms=clock.now_ms() + 50, timestamp_ms=clock.now_ms())
    policy = bind_actors(Registry([book]), RetryDefaults(base_s=100, cap_s=100), [], None, WorkerSettings())
    outcome = Judge(clock).judge(TimedOut(retry_after_s=60), job, policy["limits.quick"].policy)
    assert isinstance(outcome, Retry)
    assert outcome.delay_s == 0.05


@pytest.mark.parametrize("actor", ["steps", "asteps"])
def test_a_step_whose_time_is_up_is_timed_out_and_the_job_goes_on(bench: Bench, actor: str) -> None:
    attempt = bench.put(actor)
    assert bench.outcome(attempt) is None
    [label] = bench.board.snapshot()["histograms"][STEP_TIME.name]
    assert label == f"limits.{actor}|provider"


def test_a_step_that_the_job_does_not_handle_is_transient_and_the_sooner_of_two_times_counts(bench: Bench) -> None:
    failed, late = bench.put("step_fails_the_job"), bench.put("outer_is_sooner")
    assert type(bench.error(failed)) is TimedOut
    assert isinstance(bench.error(late), TimeLimitExceeded)


def test_a_coroutine_enters_a_step_with_async_with(bench: Bench) -> None:
    assert isinstance(bench.error(bench.put("plain_step_in_a_coroutine")), Misused)


def test_time_in_which_nothing_could_run_is_given_back(bench: Bench) -> None:
    attempt, watch = bench.put("takes_long"), bench.watch
    eventually(lambda: attempt.watch.due_s < math.inf)
    assert watch.stop(Deadline.within(10, SYSTEM))
    due_s, looks_once = attempt.watch.due_s, threading.Event()
    looks_once.set()
    watch._looked_s = SYSTEM.monotonic() - 50
    watch._round(looks_once)
    assert due_s + 45 < attempt.watch.due_s < due_s + 55


@pytest.mark.parametrize("limit", [0, -1, float("inf"), float("nan"), "5", True])
def test_a_limit_that_is_no_time_is_refused_when_it_is_declared(limit: Any) -> None:
    with pytest.raises(Misdeclared):
        Book("wrong").actor(time_limit=limit)(in_small_sleeps)


def _takes_more(word: str, more: str) -> None: ...


async def _is_async(word: str) -> None: ...


@pytest.mark.parametrize("handler", [_takes_more, _is_async, lambda word: None])  # noqa: ARG005
def test_an_expiry_handler_that_does_not_fit_its_actor_is_refused_when_it_is_declared(
    handler: Callable[..., Any],
) -> None:
    def actor(word: str) -> None: ...

    with pytest.raises(Misdeclared):
        Book("wrong").actor(on_expired=handler)(actor)


def test_a_deadline_is_set_from_when_the_job_was_made() -> None:
    job = quick.message()
    assert job.expires_in(1.5).deadline_ms == job.timestamp_ms + 1500
